/* The load generator of scripts/bench: MQTT 3.1.1 clients, one thread, epoll, no dependencies.
 *
 *   load pub     --port P --messages N [--connections C] [--qos Q] [--window W] [--size B] [--rate R] [--first F] [--deadline D]
 *   load sub     --port P --expect N [--qos Q] [--publishers C] [--idle I] [--deadline D]
 *   load clients --port P --clients N --seconds S [--size B] [--deadline D]
 *   load far     --port P [--idle I] [--deadline D]
 *   load fanout  --port P --clients N --messages M --qos Q [--window W] [--rate R] [--size B] [--kept 1] [--idle I] [--deadline D]
 *
 * pub: C publishers, each to bench/<c>, N messages in all. The window, and the rate, are of all publishers together.
 * sub: one subscriber to bench/#. It prints {"event": "subscribed"} and ends with N distinct messages, or when none is new for I seconds.
 * far: a remote that acknowledges at once, keeps no session and has no subscribers, so that it is not what is measured (MQTT 3.1.1). A line
 * "N C" on standard input begins a run, of N distinct messages of C publishers, which ends with the line of JSON of a subscriber.
 * clients: N publishers, each to bench/client/<n>, at QoS 1 once a second for S seconds; client n is n/N of a second behind client 0. A
 * message is sent when it is due, however many of that client are not acknowledged. late_max_us is how far behind its plan this program was.
 * fanout: N subscribers to fan/all at QoS Q and one publisher of M messages, which is at most W messages ahead of the broker's PUBACKs and of
 * the slowest subscriber, so a broker is saturated and yet has no reason to drop anything. --kept 1: CleanSession=0.
 *
 * A payload begins with a header: magic, publisher, sequence, time of sending. ack_* is from sending to PUBACK or PUBCOMP, transit_* to a
 * subscriber's reading. clients and fanout print {"event": "connected", ...} when all stand, begin at a line on standard input, and keep the
 * connections until that ends. Each mode ends with a line of JSON; times are monotonic. Exit status: 0 complete, 2 not, 1 on an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"

enum { CONNECT = 1, CONNACK = 2, PUBLISH = 3, PUBACK = 4, PUBREC = 5, PUBREL = 6, PUBCOMP = 7, SUBSCRIBE = 8, SUBACK = 9, UNSUBSCRIBE = 10,
       UNSUBACK = 11, PINGREQ = 12, PINGRESP = 13, DISCONNECT = 14 };
enum { MAGIC = 0x62736331, HEADER = 24, SIZE_MAX_BYTES = 1 << 17, OPENING_MAX = 64, SERVED_MAX = 256 };

struct header {
    uint32_t magic;
    uint32_t publisher;
    uint64_t sequence;
    uint64_t sent_ns;
};

struct tally { /* of the messages of one publisher to one subscriber */
    uint8_t *seen; /* one bit a sequence */
    size_t bytes;
    uint64_t next; /* one above the highest seen */
};

struct connection {
    int fd, number, waits, in_flight, next_id, pinged;
    size_t in_used, in_bytes, out_used, out_bytes;
    uint8_t *in, *out;
    const char *filter; /* what it subscribes to */
    struct tally *tallies; /* by publisher, of a subscriber */
    long sent, acknowledged;
    uint64_t *sent_ns; /* by packet identifier; 0 is free; NULL: nobody asks how long an acknowledgement took */
    int ids;
};

static int port, count = 1, qos = 1, window = 1000, size, kept;
static long messages = 1, first, seconds = 1;
static double rate, idle_s = 5, deadline_s = 120;

static int epoll, timer = -1;
static struct connection *all, listening = {.fd = -1}, input = {.fd = STDIN_FILENO}; /* the last two in far only */
static long served, ordered;                                                           /* connections; lines on standard input */
static struct histogram latency;
static uint64_t read_ns, first_ns, last_ns; /* of the last read; of the first and the last message or acknowledgement that counts */
static long standing, acknowledged, distinct, duplicates, out_of_order, foreign;

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *zeros(size_t each, size_t of)
{
    void *memory = calloc(each, of);
    if (!memory)
        die("no memory");
    return memory;
}

/* ---- sockets ---- */

/* A client that loses its connection has nothing to go on with; a remote waits for the next. */
static void lose(struct connection *connection, const char *why)
{
    if (listening.fd < 0)
        die("connection %d is lost: %s", connection->number, why);
    close(connection->fd);
    connection->fd = -1;
    connection->in_used = connection->out_used = 0;
    connection->waits = 0;
}

static void write_out(struct connection *connection)
{
    size_t start = 0;
    while (start < connection->out_used) {
        ssize_t written = send(connection->fd, connection->out + start, connection->out_used - start, MSG_NOSIGNAL);
        if (written < 0 && errno == EAGAIN)
            break;
        if (written <= 0) {
            lose(connection, strerror(errno));
            return;
        }
        start += (size_t)written;
    }
    memmove(connection->out, connection->out + start, connection->out_used - start);
    connection->out_used -= start;
    int waits = connection->out_used > 0;
    if (waits != connection->waits) {
        struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0u), .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
        connection->waits = waits;
    }
}

static uint8_t *room(struct connection *connection, size_t bytes)
{
    if (connection->out_used + bytes > connection->out_bytes) {
        connection->out_bytes = (connection->out_bytes + bytes) * 2;
        connection->out = realloc(connection->out, connection->out_bytes);
        if (!connection->out)
            die("no memory");
    }
    return connection->out + connection->out_used;
}

static void put(struct connection *connection, const void *packet, size_t bytes)
{
    memcpy(room(connection, bytes), packet, bytes);
    connection->out_used += bytes;
}

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
        die("epoll: %s", strerror(errno));
}

static void open_connection(struct connection *connection, int number, size_t in_bytes, const char *role, int clean)
{
    connection->number = number;
    connection->next_id = 1;
    connection->in = zeros(1, connection->in_bytes = in_bytes);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        die("no socket: %s", strerror(errno));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    watch(connection->fd, connection);
    char client_id[48];
    int id_bytes = snprintf(client_id, sizeof client_id, "bench-%s-%d-%d", role, getpid() % 100000, number);
    put(connection, (uint8_t[]){0x10, (uint8_t)(12 + id_bytes), 0, 4, 'M', 'Q', 'T', 'T', 4, clean ? 2 : 0, 0, 0, 0, (uint8_t)id_bytes}, 14);
    put(connection, client_id, (size_t)id_bytes);
    write_out(connection);
}

/* ---- packets ---- */

static void count_message(struct connection *connection, const uint8_t *payload, size_t length, uint32_t publishers)
{
    struct header header;
    if (length < HEADER || (memcpy(&header, payload, HEADER), header.magic != MAGIC) || header.publisher >= publishers) {
        foreign++;
        return;
    }
    struct tally *tally = &connection->tallies[header.publisher];
    size_t byte = header.sequence / 8;
    if (byte >= tally->bytes) {
        size_t bytes = (byte + 1) * 2;
        tally->seen = realloc(tally->seen, bytes);
        if (!tally->seen)
            die("no memory");
        memset(tally->seen + tally->bytes, 0, bytes - tally->bytes);
        tally->bytes = bytes;
    }
    uint8_t bit = (uint8_t)(1u << header.sequence % 8);
    if (tally->seen[byte] & bit) {
        duplicates++;
        return;
    }
    tally->seen[byte] |= bit;
    if (header.sequence < tally->next)
        out_of_order++;
    else
        tally->next = header.sequence + 1;
    if (!distinct++)
        first_ns = read_ns;
    last_ns = read_ns;
    record(&latency, read_ns - header.sent_ns);
}

static uint32_t publishers = 1; /* whose messages a subscriber takes */

static void handle(struct connection *connection, uint8_t head, const uint8_t *body, size_t length)
{
    int kind = head >> 4;
    if (length < 2 && kind != PINGRESP && kind != PINGREQ && kind != DISCONNECT)
        die("packet of kind %d and %zu bytes", kind, length);
    switch (kind) {
    case CONNACK:
        if (body[1])
            die("CONNECT of %d was refused: %d", connection->number, body[1]);
        if (!connection->filter) {
            standing++;
            return;
        }
        size_t bytes = strlen(connection->filter);
        put(connection, (uint8_t[]){0x82, (uint8_t)(5 + bytes), 0, 1, 0, (uint8_t)bytes}, 6);
        put(connection, connection->filter, bytes);
        put(connection, (uint8_t[]){(uint8_t)qos}, 1);
        return;
    case SUBACK:
        if (length < 3 || body[2] != qos)
            die("SUBSCRIBE of %d was refused", connection->number);
        standing++;
        return;
    case PUBLISH: {
        size_t at = 2 + ((size_t)body[0] << 8 | body[1]);
        int level = head >> 1 & 3;
        if (length < at + (level ? 2 : 0))
            die("short PUBLISH");
        if (level) {
            put(connection, (uint8_t[]){(uint8_t)((level == 1 ? PUBACK : PUBREC) << 4), 2, body[at], body[at + 1]}, 4);
            at += 2;
        }
        count_message(connection, body + at, length - at, publishers);
        return;
    }
    case PUBREL:
        put(connection, (uint8_t[]){PUBCOMP << 4, 2, body[0], body[1]}, 4);
        return;
    case CONNECT: /* the bridge of Mosquitto sets a bit in the level */
        put(connection, (uint8_t[]){CONNACK << 4, 2, 0, (uint8_t)(length > 6 && (body[6] & 127) == 4 ? 0 : 1)}, 4);
        return;
    case SUBSCRIBE: /* to one filter, as bridges do for what comes back: there is none */
        put(connection, (uint8_t[]){SUBACK << 4, 3, body[0], body[1], 0}, 5);
        return;
    case UNSUBSCRIBE: /* from what a Mosquitto may have had there before */
        put(connection, (uint8_t[]){UNSUBACK << 4, 2, body[0], body[1]}, 4);
        return;
    case PINGREQ:
        put(connection, (uint8_t[]){PINGRESP << 4, 0}, 2);
        return;
    case DISCONNECT: /* it closes next */
        return;
    case PINGRESP: /* behind all of QoS 0: the broker has read that */
        acknowledged += connection->sent - connection->acknowledged;
        connection->acknowledged = connection->sent;
        return;
    }
    if (kind == PUBREC && qos == 2) {
        put(connection, (uint8_t[]){PUBREL << 4 | 2, 2, body[0], body[1]}, 4);
        return;
    }
    int packet_id = body[0] << 8 | body[1];
    if (kind != (qos == 2 ? PUBCOMP : PUBACK) || (connection->sent_ns && (packet_id >= connection->ids || !connection->sent_ns[packet_id])))
        die("unexpected packet of kind %d with identifier %d for %d", kind, packet_id, connection->number);
    if (connection->sent_ns) {
        record(&latency, read_ns - connection->sent_ns[packet_id]);
        connection->sent_ns[packet_id] = 0;
    }
    last_ns = read_ns;
    connection->in_flight--;
    connection->acknowledged++;
    acknowledged++;
}

/* Read once what there is, act on every whole packet, and send the answers as one burst. */
static void read_packets(struct connection *connection)
{
    ssize_t got = recv(connection->fd, connection->in + connection->in_used, connection->in_bytes - connection->in_used, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        lose(connection, got ? strerror(errno) : "closed by the broker");
        return;
    }
    read_ns = now_ns();
    connection->in_used += (size_t)got;
    size_t position = 0;
    while (connection->in_used - position >= 2) {
        size_t at = position + 1, length = 0;
        unsigned shift = 0;
        uint8_t byte = 128;
        while (at < connection->in_used && shift < 28 && byte & 128) {
            byte = connection->in[at++];
            length |= (size_t)(byte & 127) << shift;
            shift += 7;
        }
        if (byte & 128 || at + length > connection->in_used)
            break;
        handle(connection, connection->in[position], connection->in + at, length);
        position = at + length;
    }
    memmove(connection->in, connection->in + position, connection->in_used - position);
    connection->in_used -= position;
    if (connection->in_used == connection->in_bytes)
        die("packet larger than %zu bytes", connection->in_bytes);
    if (connection->out_used && !connection->waits)
        write_out(connection);
}

static void accept_connection(void)
{
    int fd = accept4(listening.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1, place = 0;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (place < served && all[place].fd >= 0)
        place++;
    if (place == SERVED_MAX)
        die("more than %d connections", SERVED_MAX);
    served += place == served;
    struct connection *connection = &all[place];
    connection->number = place;
    connection->fd = fd;
    if (!connection->in)
        connection->in = zeros(1, connection->in_bytes = 1 << 18);
    connection->tallies = all[SERVED_MAX].tallies;
    watch(fd, connection);
}

/* What has happened within `timeout_ms`; how often the timer has run out. */
static long wait_events(int timeout_ms)
{
    struct epoll_event events[256];
    long ticks = 0;
    int found = epoll_wait(epoll, events, 256, timeout_ms);
    for (int i = 0; i < found; i++) {
        struct connection *connection = events[i].data.ptr;
        if (!connection) {
            uint64_t passed;
            if (read(timer, &passed, sizeof passed) == sizeof passed)
                ticks += (long)passed;
            continue;
        }
        if (connection == &listening) {
            accept_connection();
            continue;
        }
        if (connection == &input) {
            ordered++;
            continue;
        }
        if (events[i].events & EPOLLOUT)
            write_out(connection);
        if (connection->fd >= 0 && events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            read_packets(connection);
    }
    return ticks;
}

/* A packet identifier that is free is the next one, which comes round after the last. */
static void put_publish(struct connection *connection, const char *topic, uint32_t publisher, long sequence)
{
    size_t topic_bytes = strlen(topic), rest = 2 + topic_bytes + (qos ? 2 : 0) + (size_t)size;
    uint8_t *packet = room(connection, rest + 5), *at = packet;
    *at++ = (uint8_t)(0x30 | qos << 1);
    do {
        *at++ = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest);
    *at++ = 0;
    *at++ = (uint8_t)topic_bytes;
    memcpy(at, topic, topic_bytes);
    at += topic_bytes;
    struct header header = {MAGIC, publisher, (uint64_t)sequence, now_ns()};
    if (qos) {
        while (connection->sent_ns && connection->sent_ns[connection->next_id])
            connection->next_id = connection->next_id % (connection->ids - 1) + 1;
        if (connection->sent_ns)
            connection->sent_ns[connection->next_id] = header.sent_ns;
        *at++ = (uint8_t)(connection->next_id >> 8);
        *at++ = (uint8_t)connection->next_id;
        connection->next_id = connection->next_id % (connection->ids - 1) + 1;
        connection->in_flight++;
    }
    memcpy(at, &header, HEADER);
    memset(at + HEADER, 'x', (size_t)size - HEADER);
    connection->out_used += (size_t)(at - packet) + (size_t)size;
    connection->sent++;
}

static uint64_t limit_ns(double in_s)
{
    return now_ns() + (uint64_t)(in_s * 1e9);
}

/* Open `many` connections from `from` on, some tens at a time, and have them stand. ids: packet identifiers that are kept account of. */
static void open_connections(int from, int many, size_t in_bytes, const char *role, int clean, int ids)
{
    uint64_t limit = limit_ns(deadline_s);
    long stood = standing;
    for (int opened = 0; standing - stood < many;) {
        while (opened < many && opened - (standing - stood) < OPENING_MAX) {
            struct connection *connection = &all[from + opened];
            connection->ids = ids ? ids : 65536;
            connection->sent_ns = ids ? zeros((size_t)ids, sizeof(uint64_t)) : NULL;
            open_connection(connection, from + opened, in_bytes, role, clean);
            opened++;
        }
        wait_events(100);
        if (now_ns() > limit)
            die("only %ld of %d connections stand", standing - stood, many);
    }
}

static void start_timer(struct itimerspec *times, int flags)
{
    if (timer < 0)
        watch(timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), NULL);
    timerfd_settime(timer, flags, times, NULL);
}

static void await_start(uint64_t begun_ns)
{
    char line[16];
    printf("{\"event\": \"connected\", \"clients\": %ld, \"seconds\": %.3f}\n", standing, (double)(now_ns() - begun_ns) / 1e9);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

static void await_end(void)
{
    char line[16];
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
}

/* ---- the modes ---- */

static int publish(void)
{
    int window_each = window / count > 0 ? window / count : 1;
    long each = messages / count, published = 0, released = 0; /* released: what the rate allows by now */
    messages = each * count;
    open_connections(0, count, 1 << 18, "pub", 1, 65536);
    if (rate > 0) {
        long interval_ns = (long)(1e9 / rate);
        start_timer(&(struct itimerspec){.it_interval = {interval_ns / 1000000000, interval_ns % 1000000000}, .it_value = {0, 1}}, 0);
    }
    uint64_t start_ns = now_ns(), limit = limit_ns(deadline_s);
    while (acknowledged < messages && now_ns() < limit) {
        int busy = 0;
        for (int number = 0; number < count; number++) {
            struct connection *connection = &all[number];
            char topic[24];
            snprintf(topic, sizeof topic, "bench/%d", number);
            for (int burst = 256; burst && !connection->waits && connection->out_used < SIZE_MAX_BYTES; burst--) {
                if (connection->sent == each || (qos && connection->in_flight >= window_each) || (rate > 0 && published >= released))
                    break;
                put_publish(connection, topic, (uint32_t)number, first + connection->sent);
                published++;
            }
            if (!qos && connection->sent == each && !connection->pinged) {
                put(connection, (uint8_t[]){0xc0, 0}, 2);
                connection->pinged = 1;
            }
            if (!connection->waits)
                write_out(connection);
            busy |= rate <= 0 && connection->sent < each && (!qos || connection->in_flight < window_each) && !connection->waits;
        }
        released += wait_events(busy ? 0 : 100);
    }
    uint64_t end_ns = now_ns();
    double took_s = (double)(end_ns - start_ns) / 1e9;
    printf("{\"published\": %ld, \"acknowledged\": %ld, \"start_ns\": %llu, \"end_ns\": %llu, \"seconds\": %.6f, \"acknowledged_per_s\": %.1f", published,
           acknowledged, (unsigned long long)start_ns, (unsigned long long)end_ns, took_s, (double)acknowledged / took_s);
    print_latency("ack", &latency);
    puts("}");
    for (int number = 0; number < count; number++)
        if (send(all[number].fd, (uint8_t[]){0xe0, 0}, 2, MSG_NOSIGNAL) < 0)
            return 2;
    return acknowledged == messages ? 0 : 2;
}

static int await_messages(void)
{
    uint64_t limit = limit_ns(deadline_s);
    while (distinct < messages && now_ns() < limit && !(distinct && now_ns() - last_ns > (uint64_t)(idle_s * 1e9)))
        wait_events(100);
    printf("{\"distinct\": %ld, \"duplicates\": %ld, \"out_of_order\": %ld, \"foreign\": %ld, \"first_ns\": %llu, \"last_new_ns\": %llu", distinct,
           duplicates, out_of_order, foreign, (unsigned long long)first_ns, (unsigned long long)last_ns);
    print_latency("transit", &latency);
    puts("}");
    fflush(stdout);
    return distinct == messages ? 0 : 2;
}

static int subscribe(void)
{
    publishers = (uint32_t)count;
    all->filter = "bench/#";
    all->tallies = zeros((size_t)count, sizeof *all->tallies);
    open_connections(0, 1, 1 << 18, "sub", 1, 0);
    puts("{\"event\": \"subscribed\"}");
    fflush(stdout);
    return await_messages();
}

/* all[SERVED_MAX] has the tallies, which all connections share. */
static int be_far(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    listening.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(listening.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listening.fd, (struct sockaddr *)&address, sizeof address) || listen(listening.fd, 64))
        die("cannot listen on 127.0.0.1:%d: %s", port, strerror(errno));
    watch(listening.fd, &listening);
    watch(input.fd, &input);
    struct tally *tallies = all[SERVED_MAX].tallies = zeros(SERVED_MAX, sizeof *tallies);
    for (char line[64];;) {
        while (!ordered)
            wait_events(-1);
        ordered = 0;
        if (!fgets(line, sizeof line, stdin))
            return 0;
        if (sscanf(line, "%ld %d", &messages, &count) != 2 || messages < 1 || count < 1 || count > SERVED_MAX)
            die("a line without the numbers of messages and publishers: %s", line);
        for (int number = 0; number < SERVED_MAX; number++) {
            free(tallies[number].seen);
            tallies[number] = (struct tally){0};
        }
        publishers = (uint32_t)count;
        distinct = duplicates = out_of_order = foreign = 0;
        first_ns = last_ns = 0;
        memset(&latency, 0, sizeof latency);
        puts("{\"event\": \"expecting\"}");
        fflush(stdout);
        await_messages();
    }
}

static int publish_by_clients(void)
{
    uint64_t begun_ns = now_ns();
    open_connections(0, count, 1024, "client", 1, (int)seconds + 2);
    await_start(begun_ns);
    long total = (long)count * seconds, next = 0;
    uint64_t start = now_ns(), limit = limit_ns((double)seconds + deadline_s), late_max = 0;
    while (acknowledged < total && now_ns() < limit) {
        uint64_t now = now_ns();
        for (; next < total; next++) {
            uint64_t due = start + (uint64_t)((double)next * 1e9 / count);
            if (due > now) {
                start_timer(&(struct itimerspec){.it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}}, TFD_TIMER_ABSTIME);
                break;
            }
            struct connection *client = &all[next % count];
            char topic[32];
            snprintf(topic, sizeof topic, "bench/client/%d", client->number);
            if (now - due > late_max)
                late_max = now - due;
            put_publish(client, topic, (uint32_t)client->number, client->sent);
            if (!client->waits)
                write_out(client);
        }
        wait_events(100);
    }
    printf("{\"sent\": %ld, \"acknowledged\": %ld, \"seconds\": %.6f, \"late_max_us\": %.1f", next, acknowledged, (double)(last_ns - start) / 1e9,
           (double)late_max / 1e3);
    print_latency("ack", &latency);
    puts("}");
    await_end();
    return acknowledged == total ? 0 : 2;
}

static int fan_out(void)
{
    uint64_t begun_ns = now_ns();
    struct connection *publisher = &all[count];
    for (int number = 0; number < count; number++) {
        all[number].filter = "fan/all";
        all[number].tallies = zeros(1, sizeof *all->tallies);
    }
    open_connections(0, count, 1 << 17, "subscriber", !kept, 0);
    open_connections(count, 1, 1 << 16, "publisher", 1, 0);
    await_start(begun_ns);
    long total = messages * count;
    uint64_t start = now_ns(), limit = limit_ns(deadline_s);
    last_ns = start;
    while ((distinct < total || (qos && acknowledged < messages)) && now_ns() < limit && now_ns() - last_ns < (uint64_t)(idle_s * 1e9)) {
        long behind = qos ? acknowledged : messages, released = rate > 0 ? (long)((double)(now_ns() - start) / 1e9 * rate) + 1 : messages;
        for (int number = 0; number < count; number++) /* the slowest */
            if ((long)all[number].tallies->next < behind)
                behind = (long)all[number].tallies->next;
        int burst = 0;
        while (!publisher->waits && burst < 64 && publisher->sent < released && publisher->sent < messages && publisher->sent - behind < window) {
            put_publish(publisher, "fan/all", 0, publisher->sent);
            burst++;
        }
        if (burst)
            write_out(publisher);
        wait_events(burst == 64 ? 0 : rate > 0 ? 1 : 100);
    }
    double took_s = (double)(last_ns - start) / 1e9;
    printf("{\"published\": %ld, \"acknowledged\": %ld, \"deliveries\": %ld, \"seconds\": %.6f, \"deliveries_per_s\": %.1f, \"missing\": %ld, "
           "\"duplicates\": %ld, \"out_of_order\": %ld, \"foreign\": %ld",
           publisher->sent, acknowledged, distinct, took_s, took_s > 0 ? (double)distinct / took_s : 0.0, total - distinct, duplicates, out_of_order,
           foreign);
    print_latency("transit", &latency);
    puts("}");
    await_end();
    return distinct == total ? 0 : 2;
}

int main(int words, char **arguments)
{
    const char *mode = words > 1 ? arguments[1] : "";
    int broker = !strcmp(mode, "clients") || !strcmp(mode, "fanout");
    size = broker ? 64 : 256;
    for (int i = 2; i + 1 < words; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--messages") || !strcmp(name, "--expect")) messages = atol(value);
        else if (!strcmp(name, "--connections") || !strcmp(name, "--publishers") || !strcmp(name, "--clients")) count = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atol(value);
        else if (!strcmp(name, "--qos")) qos = atoi(value);
        else if (!strcmp(name, "--window")) window = atoi(value);
        else if (!strcmp(name, "--size")) size = atoi(value);
        else if (!strcmp(name, "--kept")) kept = atoi(value);
        else if (!strcmp(name, "--rate")) rate = atof(value);
        else if (!strcmp(name, "--first")) first = atol(value);
        else if (!strcmp(name, "--idle")) idle_s = atof(value);
        else if (!strcmp(name, "--deadline")) deadline_s = atof(value);
        else die("unknown option %s", name);
    }
    if (port < 1 || messages < 1 || count < 1 || seconds < 1 || seconds > 65000 || qos < 0 || qos > 2 - broker || window < 1 || window > 60000 ||
        size < HEADER || size > (broker ? 4096 : SIZE_MAX_BYTES - 64))
        die("an option is missing or out of range");
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    epoll = epoll_create1(EPOLL_CLOEXEC);
    int far = !strcmp(mode, "far");
    all = zeros((size_t)(far ? SERVED_MAX : count) + 1, sizeof *all);
    if (!strcmp(mode, "pub"))
        return publish();
    if (!strcmp(mode, "sub"))
        return subscribe();
    if (far)
        return be_far();
    if (!strcmp(mode, "clients"))
        return publish_by_clients();
    if (!strcmp(mode, "fanout"))
        return fan_out();
    die("load pub|sub|far|clients|fanout --port P ...");
}
