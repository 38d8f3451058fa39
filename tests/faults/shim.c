/* Disk faults for the processes of a node, by LD_PRELOAD: the calls of libc that write and sync files fail, wait or fall short.
 *
 * It acts in processes whose command line holds the word $FAULTS_WORD, on files below the folder $FAULTS_FOLDER, as the
 * control file $FAULTS_CONTROL says. That file is mapped, so that a test changes it at run time; its layout is tests/support/
 * shim.py's too. Nothing set, nothing done. A process that is forked has its command line and its environment only after this was
 * loaded, so each looks at its own when it first does something.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { /* what may go wrong, by call */
    ON_WRITE = 1,   /* write, pwrite, writev, pwritev */
    ON_SYNC = 2,    /* fsync, fdatasync, sync_file_range */
    ON_SPACE = 4,   /* fallocate and posix_fallocate */
    ON_CREATE = 8,  /* open that would create a file, mkdir, link */
    ON_CHANGE = 16, /* open for writing, rename, unlink, truncate */
    ON_OPEN = 32,   /* any open */
    ON_READ = 64,   /* read, pread, fread */
};

struct control {
    volatile uint32_t calls;    /* which calls (above) fail with `error` */
    volatile int32_t error;     /* an errno */
    volatile int32_t skip;      /* how many of them still go well first */
    volatile int32_t budget;    /* how many fail, then it is over; negative for ever */
    volatile uint32_t sync_ms;  /* each sync waits so long first */
    volatile uint32_t sync_hangs; /* while not 0, no sync returns */
    volatile uint32_t write_max; /* a write takes at most so many bytes; 0 for all of them */
    volatile uint32_t hits;     /* calls that were made to fail */
    volatile uint32_t syncs;    /* syncs that were seen */
    volatile uint32_t hanging;  /* syncs that wait just now */
    volatile uint32_t shortened; /* writes that were cut short */
};

static struct control *control; /* NULL where this process is left alone */
static volatile pid_t looked;   /* the process for which that was decided */
static char folder[PATH_MAX];
static size_t folder_length;

/* Whether this process has `word` in its command line; -1 for the template, the tests' own one (preloaded.py) and what they have
 * just forked, which are nobody yet. */
static int is_called(const char *word) {
    char words[8192];
    int kept = errno, named = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : syscall(SYS_read, fd, words, sizeof words - 1);
    if (fd >= 0) close(fd);
    errno = kept;
    if (length < 0) return -1;
    words[length] = 0;
    for (char *at = words; at < words + length; at += strlen(at) + 1) {
        if (strcmp(at, "actors.process.template") == 0 || strcmp(at, "tests.support.preloaded") == 0) return -1;
        named |= strcmp(at, word) == 0;
    }
    return named;
}

static struct control *map(const char *path) {
    int kept = errno;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    errno = kept;
    return at == MAP_FAILED ? NULL : at;
}

/* Whether this process is meant. */
static int meant(void) {
    if (looked == getpid()) return control != NULL;
    const char *path = getenv("FAULTS_CONTROL"), *below = getenv("FAULTS_FOLDER"), *word = getenv("FAULTS_WORD");
    int named = path == NULL || below == NULL || word == NULL || strlen(below) >= sizeof folder ? -1 : is_called(word);
    if (named < 0) return 0;
    if (named) folder_length = strlen(strcpy(folder, below));
    control = named ? map(path) : NULL;
    looked = getpid();
    return control != NULL;
}

static int is_below(const char *path) {
    return strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || path[folder_length] == 0);
}

static int file_is_below(int fd) {
    char name[64], path[PATH_MAX];
    int kept = errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    errno = kept;
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int path_is_below(int folder_fd, const char *path) {
    if (path[0] == '/') return is_below(path);
    char here[PATH_MAX];
    if (folder_fd != AT_FDCWD) return file_is_below(folder_fd);
    return getcwd(here, sizeof here) != NULL && is_below(here);
}

/* Take one from a count; 0 when there was none left. A negative count has no end. */
static int take(volatile int32_t *count) {
    for (int32_t left = *count; left >= 0; left = *count) {
        if (left == 0) return 0;
        if (__sync_bool_compare_and_swap(count, left, left - 1)) break;
    }
    return 1;
}

/* Whether a call of this kind is to fail now; sets errno. */
static int fails(uint32_t kind) {
    if ((control->calls & kind) == 0 || take(&control->skip) || !take(&control->budget)) return 0;
    __sync_fetch_and_add(&control->hits, 1);
    errno = control->error;
    return 1;
}

static int fd_fails(int fd, uint32_t kind) {
    return meant() && (control->calls & kind) != 0 && file_is_below(fd) && fails(kind);
}

static int path_fails(int folder_fd, const char *path, uint32_t kind) {
    return meant() && (control->calls & kind) != 0 && path_is_below(folder_fd, path) && fails(kind);
}

static void pause_ms(uint32_t ms) {
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static int sync_fails(int fd) {
    if (!meant() || !file_is_below(fd)) return 0;
    __sync_fetch_and_add(&control->syncs, 1);
    if (control->sync_ms) pause_ms(control->sync_ms);
    if (control->sync_hangs) {
        __sync_fetch_and_add(&control->hanging, 1);
        while (control->sync_hangs) pause_ms(2);
        __sync_fetch_and_sub(&control->hanging, 1);
    }
    return fails(ON_SYNC);
}

static size_t allowed(int fd, size_t count) {
    if (!meant() || control->write_max == 0 || count <= control->write_max || !file_is_below(fd)) return count;
    __sync_fetch_and_add(&control->shortened, 1);
    return control->write_max;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    return fd_fails(fd, ON_WRITE) ? -1 : real(fd, data, allowed(fd, count));
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t at) {
    REAL(pwrite);
    return fd_fails(fd, ON_WRITE) ? -1 : real(fd, data, allowed(fd, count), at);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
    REAL(pwrite64);
    return fd_fails(fd, ON_WRITE) ? -1 : real(fd, data, allowed(fd, count), at);
}

ssize_t read(int fd, void *data, size_t count) {
    REAL(read);
    return fd_fails(fd, ON_READ) ? -1 : real(fd, data, count);
}

ssize_t pread(int fd, void *data, size_t count, off_t at) {
    REAL(pread);
    return fd_fails(fd, ON_READ) ? -1 : real(fd, data, count, at);
}

ssize_t pread64(int fd, void *data, size_t count, off64_t at) {
    REAL(pread64);
    return fd_fails(fd, ON_READ) ? -1 : real(fd, data, count, at);
}

#undef fread_unlocked
size_t fread_unlocked(void *data, size_t size, size_t count, FILE *file) {
    REAL(fread_unlocked);
    return fd_fails(fileno(file), ON_READ) ? 0 : real(data, size, count, file);
}

size_t fread(void *data, size_t size, size_t count, FILE *file) {
    REAL(fread);
    return fd_fails(fileno(file), ON_READ) ? 0 : real(data, size, count, file);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return fd_fails(fd, ON_WRITE) ? -1 : real(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    return fd_fails(fd, ON_WRITE) ? -1 : real(fd, parts, count, at);
}

int fsync(int fd) {
    REAL(fsync);
    return sync_fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return sync_fails(fd) ? -1 : real(fd);
}

int sync_file_range(int fd, off64_t at, off64_t count, unsigned flags) {
    REAL(sync_file_range);
    return sync_fails(fd) ? -1 : real(fd, at, count, flags);
}

int fallocate(int fd, int mode, off_t at, off_t count) {
    REAL(fallocate);
    return fd_fails(fd, ON_SPACE) ? -1 : real(fd, mode, at, count);
}

int fallocate64(int fd, int mode, off64_t at, off64_t count) {
    REAL(fallocate64);
    return fd_fails(fd, ON_SPACE) ? -1 : real(fd, mode, at, count);
}

int posix_fallocate(int fd, off_t at, off_t count) {
    REAL(posix_fallocate);
    return fd_fails(fd, ON_SPACE) ? errno : real(fd, at, count);
}

int posix_fallocate64(int fd, off64_t at, off64_t count) {
    REAL(posix_fallocate64);
    return fd_fails(fd, ON_SPACE) ? errno : real(fd, at, count);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    return fd_fails(fd, ON_CHANGE) ? -1 : real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    return fd_fails(fd, ON_CHANGE) ? -1 : real(fd, size);
}

static int open_fails(int folder_fd, const char *path, int flags) {
    uint32_t kind = ON_OPEN;
    struct stat found;
    if (!meant() || control->calls == 0) return 0;
    if ((flags & O_ACCMODE) != O_RDONLY) kind |= ON_CHANGE;
    if ((flags & O_CREAT) != 0 && fstatat(folder_fd, path, &found, 0) != 0) kind |= ON_CREATE;
    return path_fails(folder_fd, path, kind);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags)
    return open_fails(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags)
    return open_fails(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode);
}

int openat(int folder_fd, const char *path, int flags, ...) {
    REAL(openat);
    MODE(flags)
    return open_fails(folder_fd, path, flags) ? -1 : real(folder_fd, path, flags, mode);
}

int openat64(int folder_fd, const char *path, int flags, ...) {
    REAL(openat64);
    MODE(flags)
    return open_fails(folder_fd, path, flags) ? -1 : real(folder_fd, path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    struct stat found;
    if (meant() && control->calls != 0 && stat(path, &found) != 0 && path_fails(AT_FDCWD, path, ON_CREATE | ON_CHANGE)) return -1;
    return real(path, mode);
}

int link(const char *from, const char *to) {
    REAL(link);
    return path_fails(AT_FDCWD, to, ON_CREATE | ON_CHANGE) ? -1 : real(from, to);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return path_fails(AT_FDCWD, to, ON_CHANGE) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return path_fails(AT_FDCWD, path, ON_CHANGE) ? -1 : real(path);
}
