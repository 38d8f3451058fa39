/* Records, by LD_PRELOAD, what the processes of a test do to the files below $RECORD_FOLDER, in one order, in the file $RECORD_LOG.
 *
 * What a loss of power leaves can be worked out from that (tests/support/model_disk.py reads it; the layout below is its too). A
 * call and its record are one step under a lock that all processes share, so the order is that in which things happened. Reads and
 * what a file's mode or times are is not recorded. Nothing set, nothing done. A process that is forked has its environment only
 * after this was loaded, so each looks there when it first does something; a lock that it had from its parent would exclude neither.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 'c', MKDIR = 'd', LINK = 'l', RENAME = 'r', UNLINK = 'u', WRITE = 'w', SIZE = 't', SYNC = 's' };

struct head { /* then the bytes of `from`, `to` and the data */
    uint8_t what;
    uint8_t unused[3];
    uint32_t from_bytes, to_bytes, data_bytes;
    uint64_t inode, at;
};

static int log_fd = -1;
static volatile pid_t looked; /* the process that has opened it */
static char folder[PATH_MAX];
static size_t folder_length;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Whether this process is recorded. */
static int recording(void) {
    if (looked == getpid()) return log_fd >= 0;
    const char *path = getenv("RECORD_LOG"), *below = getenv("RECORD_FOLDER");
    if (path == NULL || below == NULL || strlen(below) >= sizeof folder) return 0;
    int kept = errno;
    folder_length = strlen(strcpy(folder, below));
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    looked = getpid();
    errno = kept;
    return log_fd >= 0;
}

static int is_below(const char *path) {
    return strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || path[folder_length] == 0);
}

static int path_of(int fd, char *path) {
    char name[64];
    int kept = errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, PATH_MAX - 1);
    errno = kept;
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

/* The absolute path of `name`, as it was said from `at`; whether it is below the folder. */
static int resolve(int at, const char *name, char *path) {
    char base[PATH_MAX];
    if (!recording()) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        if (at == AT_FDCWD ? getcwd(base, sizeof base) == NULL : !path_of(at, base)) return 0;
        if (strlen(base) + strlen(name) + 2 > PATH_MAX) return 0;
        strcpy(path, base);
        strcat(path, "/");
        strcat(path, name);
    }
    return is_below(path);
}

static int file_is_below(int fd) {
    char path[PATH_MAX];
    struct stat found;
    return recording() && fstat(fd, &found) == 0 && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) && path_of(fd, path) && is_below(path);
}

static uint64_t inode_of(int fd) {
    struct stat found;
    int kept = errno;
    uint64_t inode = fstat(fd, &found) == 0 ? found.st_ino : 0;
    errno = kept;
    return inode;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    int kept = errno;
    uint64_t inode = lstat(path, &found) == 0 ? found.st_ino : 0;
    errno = kept;
    return inode;
}

static void lock(void) {
    pthread_mutex_lock(&mutex);
    while (flock(log_fd, LOCK_EX) != 0 && errno == EINTR) continue;
}

static void unlock(void) {
    int kept = errno;
    flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static void note(uint8_t what, uint64_t inode, uint64_t at, const char *from, const char *to, const void *data, size_t count) {
    int kept = errno;
    struct head head = {.what = what, .from_bytes = from ? strlen(from) : 0, .to_bytes = to ? strlen(to) : 0,
                        .data_bytes = data ? count : 0, .inode = inode, .at = at};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)from, head.from_bytes}, {(void *)to, head.to_bytes}, {(void *)data, head.data_bytes}};
    syscall(SYS_writev, log_fd, parts, 4);
    errno = kept;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that writes at the file's own position, or at `where` if that is not negative. */
#define WRITES(call, where) \
    if (!file_is_below(fd)) return call; \
    lock(); \
    struct stat before; \
    off64_t start = (where); \
    if (start < 0) start = fcntl(fd, F_GETFL) & O_APPEND && fstat(fd, &before) == 0 ? before.st_size : lseek(fd, 0, SEEK_CUR); \
    ssize_t done = call; \
    if (done > 0) note(WRITE, inode_of(fd), (uint64_t)start, NULL, NULL, data, (size_t)done); \
    unlock(); \
    return done;

ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    WRITES(real(fd, data, count), -1)
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t at) {
    REAL(pwrite);
    WRITES(real(fd, data, count, at), at)
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
    REAL(pwrite64);
    WRITES(real(fd, data, count, at), at)
}

/* A call with several parts takes the first only, as the kernel is free to do; the caller comes again. */
static ssize_t first_part(int fd, const struct iovec *parts, int count, off64_t at) {
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len > 0) return at < 0 ? write(fd, parts[i].iov_base, parts[i].iov_len) : pwrite(fd, parts[i].iov_base, parts[i].iov_len, at);
    return 0;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return file_is_below(fd) ? first_part(fd, parts, count, -1) : real(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    return file_is_below(fd) ? first_part(fd, parts, count, at) : real(fd, parts, count, at);
}

/* Whoever copies in the kernel is told to do it by hand. */
ssize_t sendfile(int to, int from, off_t *at, size_t count) {
    REAL(sendfile);
    if (file_is_below(to)) return errno = ENOTSOCK, -1;
    return real(to, from, at, count);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t count) {
    REAL(sendfile64);
    if (file_is_below(to)) return errno = ENOTSOCK, -1;
    return real(to, from, at, count);
}

#define SYNCS(call) \
    if (!file_is_below(fd)) return call; \
    lock(); \
    int failed = call; \
    char path[PATH_MAX]; \
    if (failed == 0 && path_of(fd, path)) note(SYNC, inode_of(fd), 0, path, NULL, NULL, 0); \
    unlock(); \
    return failed;

int fsync(int fd) {
    REAL(fsync);
    SYNCS(real(fd))
}

int fdatasync(int fd) {
    REAL(fdatasync);
    SYNCS(real(fd))
}

#define SIZES(call, size) \
    if (!file_is_below(fd)) return call; \
    lock(); \
    int failed = call; \
    struct stat after; \
    if (failed == 0 && fstat(fd, &after) == 0) note(SIZE, inode_of(fd), (uint64_t)after.st_size, NULL, NULL, NULL, 0); \
    unlock(); \
    return failed;

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    SIZES(real(fd, size), size)
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    SIZES(real(fd, size), size)
}

int fallocate(int fd, int mode, off_t at, off_t count) {
    REAL(fallocate);
    SIZES(real(fd, mode, at, count), 0)
}

int fallocate64(int fd, int mode, off64_t at, off64_t count) {
    REAL(fallocate64);
    SIZES(real(fd, mode, at, count), 0)
}

int posix_fallocate(int fd, off_t at, off_t count) {
    REAL(posix_fallocate);
    SIZES(real(fd, at, count), 0)
}

int posix_fallocate64(int fd, off64_t at, off64_t count) {
    REAL(posix_fallocate64);
    SIZES(real(fd, at, count), 0)
}

#define OPENS(at, name, call) \
    char path[PATH_MAX]; \
    if (((flags) & (O_CREAT | O_TRUNC)) == 0 || !resolve(at, name, path)) return call; \
    lock(); \
    uint64_t before = inode_at(path); \
    int fd = call; \
    if (fd >= 0 && before == 0) note(CREATE, inode_of(fd), 0, path, NULL, NULL, 0); \
    if (fd >= 0 && before != 0 && ((flags) & O_TRUNC)) note(SIZE, inode_of(fd), 0, NULL, NULL, NULL, 0); \
    unlock(); \
    return fd;

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) {
    REAL(open);
    MODE(flags)
    OPENS(AT_FDCWD, name, real(name, flags, mode))
}

int open64(const char *name, int flags, ...) {
    REAL(open64);
    MODE(flags)
    OPENS(AT_FDCWD, name, real(name, flags, mode))
}

int openat(int at, const char *name, int flags, ...) {
    REAL(openat);
    MODE(flags)
    OPENS(at, name, real(at, name, flags, mode))
}

int openat64(int at, const char *name, int flags, ...) {
    REAL(openat64);
    MODE(flags)
    OPENS(at, name, real(at, name, flags, mode))
}

#define NAMES(what, call, from, to) \
    lock(); \
    int failed = call; \
    if (failed == 0) note(what, inode_at(what == UNLINK ? from : to), 0, from, to, NULL, 0); \
    unlock(); \
    return failed;

int mkdirat(int at, const char *name, mode_t mode) {
    REAL(mkdirat);
    char path[PATH_MAX];
    if (!resolve(at, name, path)) return real(at, name, mode);
    NAMES(MKDIR, real(at, name, mode), path, path)
}

int mkdir(const char *name, mode_t mode) {
    return mkdirat(AT_FDCWD, name, mode);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(linkat);
    char from_path[PATH_MAX], to_path[PATH_MAX];
    if (!resolve(to_at, to, to_path)) return real(from_at, from, to_at, to, flags);
    resolve(from_at, from, from_path);
    NAMES(LINK, real(from_at, from, to_at, to, flags), from_path, to_path)
}

int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(renameat);
    char from_path[PATH_MAX], to_path[PATH_MAX];
    if (!resolve(to_at, to, to_path)) return real(from_at, from, to_at, to);
    resolve(from_at, from, from_path);
    NAMES(RENAME, real(from_at, from, to_at, to), from_path, to_path)
}

int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int at, const char *name, int flags) {
    REAL(unlinkat);
    char path[PATH_MAX];
    if (!resolve(at, name, path)) return real(at, name, flags);
    NAMES(UNLINK, real(at, name, flags), path, NULL)
}

int unlink(const char *name) {
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name) {
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}
