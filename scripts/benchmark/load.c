/* Load generator of scripts/bench: MQTT 3.1.1 publishers and one subscriber, one thread, epoll, no dependencies.
 *
 *   load pub --port P --messages N [--connections C] [--qos Q] [--window W] [--size S] [--rate R] [--first F] [--deadline S]
 *   load sub --port P --expect N [--qos Q] [--publishers C] [--idle S] [--deadline S]
 *
 * A publisher c publishes to bench/<c>. Its payload begins with a header: magic, publisher, sequence, time of sending on the monotonic
 * clock. The window is of all publishers together. The subscriber prints {"event": "subscribed"} when the SUBACK is there and ends when it has
 * seen N distinct messages, or when nothing new came for --idle seconds. Each mode ends with one line of JSON; times are monotonic
 * nanoseconds. Exit status: 0 when complete, 2 when not, 1 on an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { IN_BYTES = 1 << 18, OUT_BYTES = 1 << 17, IDS = 65536 };

/* ---- options ---- */

static int port, connections = 1, qos = 1, window = 1000, size = 256;
static long messages, first_sequence;
static double rate, idle_s = 5, deadline_s = 120;

/* ---- connections ---- */

struct connection {
    int fd, number, in_flight, next_id;
    size_t in_used, out_start, out_end;
    long sequence, end, acknowledged;
    int pinged, ponged, waits_for_room;
    uint8_t *in, *out;
    uint64_t *sent_ns; /* by packet identifier; 0 is free */
};

static int epoll;

static void write_out(struct connection *connection)
{
    while (connection->out_start < connection->out_end) {
        ssize_t written = send(connection->fd, connection->out + connection->out_start, connection->out_end - connection->out_start, MSG_NOSIGNAL);
        if (written < 0 && errno == EAGAIN)
            break;
        if (written <= 0)
            die("connection %d is lost: %s", connection->number, strerror(errno));
        connection->out_start += (size_t)written;
    }
    if (connection->out_start == connection->out_end)
        connection->out_start = connection->out_end = 0;
    int waits = connection->out_end > 0;
    if (waits != connection->waits_for_room) {
        struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0u), .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
        connection->waits_for_room = waits;
    }
}

static uint8_t *room(struct connection *connection, size_t bytes)
{
    if (connection->out_end + bytes > OUT_BYTES) {
        write_out(connection);
        if (connection->out_start) {
            memmove(connection->out, connection->out + connection->out_start, connection->out_end - connection->out_start);
            connection->out_end -= connection->out_start;
            connection->out_start = 0;
        }
        if (connection->out_end + bytes > OUT_BYTES)
            return NULL;
    }
    return connection->out + connection->out_end;
}

static void reply(struct connection *connection, uint8_t head, const uint8_t *packet_id)
{
    uint8_t *packet = room(connection, 4);
    while (!packet) { /* the peer does not read; an acknowledgement may not be lost */
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
        packet = room(connection, 4);
    }
    packet[0] = head;
    packet[1] = 2;
    packet[2] = packet_id[0];
    packet[3] = packet_id[1];
    connection->out_end += 4;
}

static void read_fully(int fd, uint8_t *bytes, size_t count)
{
    while (count) {
        ssize_t got = recv(fd, bytes, count, 0);
        if (got <= 0)
            die("no answer to CONNECT or SUBSCRIBE: %s", got ? strerror(errno) : "connection closed");
        bytes += got;
        count -= (size_t)got;
    }
}

static void open_connection(struct connection *connection, int number, const char *role)
{
    memset(connection, 0, sizeof *connection);
    connection->number = number;
    connection->next_id = 1;
    connection->in = malloc(IN_BYTES);
    connection->out = malloc(OUT_BYTES);
    connection->sent_ns = calloc(IDS, sizeof *connection->sent_ns);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!connection->in || !connection->out || !connection->sent_ns || connection->fd < 0)
        die("no memory or no socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct timeval patience = {.tv_sec = 20};
    setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

    char client_id[32];
    int id_bytes = snprintf(client_id, sizeof client_id, "bench-%s-%d-%d", role, getpid() % 100000, number);
    uint8_t packet[64] = {0x10, (uint8_t)(12 + id_bytes), 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, (uint8_t)id_bytes};
    memcpy(packet + 14, client_id, (size_t)id_bytes);
    if (send(connection->fd, packet, (size_t)(14 + id_bytes), MSG_NOSIGNAL) < 0)
        die("cannot send CONNECT: %s", strerror(errno));
    uint8_t answer[4];
    read_fully(connection->fd, answer, 4);
    if (answer[0] >> 4 != CONNACK || answer[3])
        die("CONNECT was refused: %d", answer[3]);
}

static void start_events(struct connection *connection)
{
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event))
        die("epoll: %s", strerror(errno));
}

/* Give each whole packet that has arrived to `handle`: its first byte, its body, the body's length. */
static void read_packets(struct connection *connection, void (*handle)(struct connection *, uint8_t, const uint8_t *, size_t))
{
    ssize_t got = recv(connection->fd, connection->in + connection->in_used, IN_BYTES - connection->in_used, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("connection %d is lost: %s", connection->number, got ? strerror(errno) : "closed by the broker");
    connection->in_used += (size_t)got;
    size_t position = 0;
    for (;;) {
        size_t at = position + 1, length = 0;
        unsigned shift = 0;
        int whole = 0;
        while (at < connection->in_used && shift < 28) {
            uint8_t byte = connection->in[at++];
            length |= (size_t)(byte & 127) << shift;
            shift += 7;
            if (!(byte & 128)) {
                whole = 1;
                break;
            }
        }
        if (whole && length > IN_BYTES - 8)
            die("packet of %zu bytes", length);
        if (!whole || at + length > connection->in_used)
            break;
        handle(connection, connection->in[position], connection->in + at, length);
        position = at + length;
    }
    memmove(connection->in, connection->in + position, connection->in_used - position);
    connection->in_used -= position;
}

/* ---- publishers ---- */

static struct histogram ack_latency;
static long acknowledged;
static int window_each;
static long released; /* messages that the rate allows by now */
static long published;

static int put_publish(struct connection *connection)
{
    char topic[24];
    int topic_bytes = snprintf(topic, sizeof topic, "bench/%d", connection->number);
    size_t body = 2 + (size_t)topic_bytes + (qos ? 2 : 0) + (size_t)size;
    uint8_t *packet = room(connection, body + 5), *at = packet;
    if (!packet)
        return 0;
    *at++ = (uint8_t)(0x30 | qos << 1);
    for (size_t rest = body; ; ) {
        uint8_t byte = rest & 127;
        rest >>= 7;
        *at++ = byte | (rest ? 128 : 0);
        if (!rest)
            break;
    }
    *at++ = 0;
    *at++ = (uint8_t)topic_bytes;
    memcpy(at, topic, (size_t)topic_bytes);
    at += topic_bytes;
    uint64_t sent_ns = now_ns();
    if (qos) {
        while (connection->sent_ns[connection->next_id])
            connection->next_id = connection->next_id % (IDS - 1) + 1;
        connection->sent_ns[connection->next_id] = sent_ns;
        *at++ = (uint8_t)(connection->next_id >> 8);
        *at++ = (uint8_t)connection->next_id;
        connection->next_id = connection->next_id % (IDS - 1) + 1;
        connection->in_flight++;
    }
    struct header header = {MAGIC, (uint32_t)connection->number, (uint64_t)connection->sequence, sent_ns};
    memcpy(at, &header, HEADER);
    memset(at + HEADER, 'x', (size_t)size - HEADER);
    connection->sequence++;
    published++;
    connection->out_end += (size_t)(at - packet) + (size_t)size;
    return 1;
}

static void fill(struct connection *connection)
{
    int burst = 256; /* then look at the other connections */
    while (burst-- && connection->sequence < connection->end && (!qos || connection->in_flight < window_each) && (rate <= 0 || published < released))
        if (!put_publish(connection))
            break;
    if (!qos && connection->sequence == connection->end && !connection->pinged) {
        uint8_t *packet = room(connection, 2);
        if (packet) {
            packet[0] = 0xc0;
            packet[1] = 0;
            connection->out_end += 2;
            connection->pinged = 1;
        }
    }
    write_out(connection);
}

static void on_publisher_packet(struct connection *connection, uint8_t head, const uint8_t *body, size_t length)
{
    int kind = head >> 4;
    if (kind == PINGRESP) {
        acknowledged += connection->end - first_sequence - connection->acknowledged;
        connection->acknowledged = connection->end - first_sequence;
        connection->ponged = 1;
        return;
    }
    if (length < 2)
        die("acknowledgement of %zu bytes", length);
    int packet_id = body[0] << 8 | body[1];
    if (kind == PUBREC && qos == 2) {
        reply(connection, PUBREL << 4 | 2, body);
        return;
    }
    if (kind != (qos == 2 ? PUBCOMP : PUBACK) || !connection->sent_ns[packet_id])
        die("unexpected packet of kind %d with identifier %d", kind, packet_id);
    record(&ack_latency, now_ns() - connection->sent_ns[packet_id]);
    connection->sent_ns[packet_id] = 0;
    connection->in_flight--;
    connection->acknowledged++;
    acknowledged++;
}

static int start_rate(void)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    long interval_ns = (long)(1e9 / rate);
    struct itimerspec times = {.it_interval = {interval_ns / 1000000000, interval_ns % 1000000000}, .it_value = {0, 1}};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (timer < 0 || timerfd_settime(timer, 0, &times, NULL) || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
        die("timer: %s", strerror(errno));
    return timer;
}

static int publish(void)
{
    struct connection *all = calloc((size_t)connections, sizeof *all);
    if (!all)
        die("no memory");
    window_each = window / connections > 0 ? window / connections : 1;
    long each = messages / connections;
    messages = each * connections;
    for (int number = 0; number < connections; number++) {
        open_connection(&all[number], number, "pub");
        all[number].sequence = first_sequence;
        all[number].end = first_sequence + each;
        start_events(&all[number]);
    }
    int timer = rate > 0 ? start_rate() : -1;
    uint64_t start_ns = now_ns(), limit_ns = start_ns + (uint64_t)(deadline_s * 1e9);
    while (acknowledged < messages && now_ns() < limit_ns) {
        int busy = 0;
        for (int number = 0; number < connections; number++) {
            struct connection *connection = &all[number];
            if (connection->waits_for_room)
                continue;
            fill(connection);
            if (rate <= 0 && connection->sequence < connection->end && (!qos || connection->in_flight < window_each) && !connection->waits_for_room)
                busy = 1;
        }
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, busy ? 0 : 100);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection) {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) == sizeof ticks)
                    released += (long)ticks;
                continue;
            }
            if (events[i].events & EPOLLOUT)
                write_out(connection);
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                read_packets(connection, on_publisher_packet);
        }
    }
    uint64_t end_ns = now_ns();
    double seconds = (double)(end_ns - start_ns) / 1e9;
    printf("{\"published\": %ld, \"acknowledged\": %ld, \"start_ns\": %llu, \"end_ns\": %llu, \"seconds\": %.6f, \"acknowledged_per_s\": %.1f", published,
           acknowledged, (unsigned long long)start_ns, (unsigned long long)end_ns, seconds, (double)acknowledged / seconds);
    print_latency("ack", &ack_latency);
    puts("}");
    for (int number = 0; number < connections; number++) {
        uint8_t disconnect[2] = {0xe0, 0};
        if (send(all[number].fd, disconnect, 2, MSG_NOSIGNAL) < 0)
            return 2;
    }
    return acknowledged == messages ? 0 : 2;
}

/* ---- the subscriber ---- */

static struct histogram transit;
static long distinct, duplicates, out_of_order, foreign;
static uint64_t first_ns, last_new_ns;
static struct {
    uint8_t *seen; /* one bit a sequence */
    size_t bytes;
    uint64_t next; /* one above the highest seen */
} *publishers;

static void count_message(const uint8_t *payload, size_t length)
{
    struct header header;
    if (length < HEADER || (memcpy(&header, payload, HEADER), header.magic != MAGIC) || header.publisher >= (uint32_t)connections) {
        foreign++;
        return;
    }
    size_t byte = header.sequence / 8;
    if (byte >= publishers[header.publisher].bytes) {
        size_t bytes = (byte + 1) * 2;
        uint8_t *seen = realloc(publishers[header.publisher].seen, bytes);
        if (!seen)
            die("no memory");
        memset(seen + publishers[header.publisher].bytes, 0, bytes - publishers[header.publisher].bytes);
        publishers[header.publisher].seen = seen;
        publishers[header.publisher].bytes = bytes;
    }
    uint8_t bit = (uint8_t)(1u << header.sequence % 8);
    if (publishers[header.publisher].seen[byte] & bit) {
        duplicates++;
        return;
    }
    publishers[header.publisher].seen[byte] |= bit;
    if (header.sequence < publishers[header.publisher].next)
        out_of_order++;
    else
        publishers[header.publisher].next = header.sequence + 1;
    last_new_ns = now_ns();
    if (!distinct++)
        first_ns = last_new_ns;
    record(&transit, last_new_ns - header.sent_ns);
}

static void on_subscriber_packet(struct connection *connection, uint8_t head, const uint8_t *body, size_t length)
{
    if (head >> 4 == PUBREL) {
        reply(connection, PUBCOMP << 4, body);
        return;
    }
    if (head >> 4 != PUBLISH)
        return;
    size_t at = 2 + ((size_t)body[0] << 8 | body[1]);
    int level = head >> 1 & 3;
    if (length < at + (level ? 2 : 0))
        die("short PUBLISH");
    if (level) {
        reply(connection, (level == 1 ? PUBACK : PUBREC) << 4, body + at);
        at += 2;
    }
    count_message(body + at, length - at);
}

static int subscribe(void)
{
    publishers = calloc((size_t)connections, sizeof *publishers);
    struct connection *connection = calloc(1, sizeof *connection);
    if (!publishers || !connection)
        die("no memory");
    open_connection(connection, 0, "sub");
    uint8_t packet[] = {0x82, 12, 0, 1, 0, 7, 'b', 'e', 'n', 'c', 'h', '/', '#', (uint8_t)qos}, answer[5];
    if (send(connection->fd, packet, sizeof packet, MSG_NOSIGNAL) < 0)
        die("cannot send SUBSCRIBE: %s", strerror(errno));
    read_fully(connection->fd, answer, sizeof answer);
    if (answer[0] >> 4 != SUBACK || answer[4] != qos)
        die("SUBSCRIBE was refused: %d", answer[4]);
    start_events(connection);
    puts("{\"event\": \"subscribed\"}");
    fflush(stdout);
    uint64_t limit_ns = now_ns() + (uint64_t)(deadline_s * 1e9);
    while (distinct < messages && now_ns() < limit_ns && !(distinct && now_ns() - last_new_ns > (uint64_t)(idle_s * 1e9))) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, 100) > 0) {
            if (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                read_packets(connection, on_subscriber_packet);
            write_out(connection);
        }
    }
    printf("{\"distinct\": %ld, \"duplicates\": %ld, \"out_of_order\": %ld, \"foreign\": %ld, \"first_ns\": %llu, \"last_new_ns\": %llu", distinct,
           duplicates, out_of_order, foreign, (unsigned long long)first_ns, (unsigned long long)last_new_ns);
    print_latency("transit", &transit);
    puts("}");
    return distinct == messages ? 0 : 2;
}

int main(int count, char **arguments)
{
    if (count < 2)
        die("load pub|sub --port P ...");
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--messages") || !strcmp(name, "--expect")) messages = atol(value);
        else if (!strcmp(name, "--connections") || !strcmp(name, "--publishers")) connections = atoi(value);
        else if (!strcmp(name, "--qos")) qos = atoi(value);
        else if (!strcmp(name, "--window")) window = atoi(value);
        else if (!strcmp(name, "--size")) size = atoi(value);
        else if (!strcmp(name, "--rate")) rate = atof(value);
        else if (!strcmp(name, "--first")) first_sequence = atol(value);
        else if (!strcmp(name, "--idle")) idle_s = atof(value);
        else if (!strcmp(name, "--deadline")) deadline_s = atof(value);
        else die("unknown option %s", name);
    }
    if (port < 1 || messages < 1 || connections < 1 || qos < 0 || qos > 2 || window < 1 || window > 60000 || size < HEADER || size > OUT_BYTES - 64)
        die("an option is missing or out of range");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!strcmp(arguments[1], "pub"))
        return publish();
    if (!strcmp(arguments[1], "sub"))
        return subscribe();
    die("unknown mode %s", arguments[1]);
}
