/* Load generator of scripts/bench --clients and --fan-out: many MQTT 3.1.1 clients of one broker, one thread, epoll, no dependencies.
 *
 *   broker_load clients --port P --clients N --seconds S [--size B] [--deadline D]
 *   broker_load fanout  --port P --clients N --messages M --qos Q [--window W] [--rate R] [--size B] [--kept 1] [--idle I] [--deadline D]
 *
 * clients: N publishers, each with a topic of its own (bench/client/<n>), publish at QoS 1 once a second for S seconds; client n is n/N of a
 * second behind client 0. A message is sent when it is due, however many of that client are not acknowledged. ack_* is from sending to PUBACK;
 * late_max_us is how far behind its plan this program was, which is no fault of the broker.
 *
 * fanout: N subscribers to fan/all at QoS Q and one publisher of M messages. The publisher is at most W messages ahead of the broker's
 * PUBACKs and of the slowest subscriber, so a broker is saturated and yet has no reason to drop anything. --kept 1: CleanSession=0.
 * --rate: at most R messages a second, one by one. transit_* is from the publisher's sending to a subscriber's reading.
 *
 * Both print {"event": "connected", ...} when all clients stand, begin at a line on standard input, end with a line of JSON, and keep the
 * connections until standard input ends. Times are of the monotonic clock. Exit status: 0 when complete, 2 when not, 1 on an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common.h"

enum { OPENING_MAX = 64, BURST = 64, PACKET_BYTES = 5 + 2 + 32 + 2 + 4096 };

static int port, clients = 1, qos = 1, window = 1000, size = 64, kept;
static long messages = 1, seconds = 1;
static double rate, idle_s = 5, deadline_s = 120;

struct client {
    int fd, number, stands, waits;
    size_t in_used, in_bytes, out_used, out_bytes;
    uint8_t *in, *out, *seen; /* seen: one bit a message */
    long sent, acknowledged, received;
    uint64_t next; /* one above the highest sequence received */
    uint64_t *sent_ns;
};

static int epoll;
static struct client *all;
static struct histogram latency;
static uint64_t last_ns; /* of the last message or acknowledgement that counts */
static long standing, acknowledged, received, duplicates, out_of_order, foreign;
static int subscribes;

/* ---- sockets ---- */

static void write_out(struct client *client)
{
    size_t start = 0;
    while (start < client->out_used) {
        ssize_t written = send(client->fd, client->out + start, client->out_used - start, MSG_NOSIGNAL);
        if (written < 0 && errno == EAGAIN)
            break;
        if (written <= 0)
            die("client %d is lost: %s", client->number, strerror(errno));
        start += (size_t)written;
    }
    memmove(client->out, client->out + start, client->out_used - start);
    client->out_used -= start;
    int waits = client->out_used > 0;
    if (waits != client->waits) {
        struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0u), .data.ptr = client};
        epoll_ctl(epoll, EPOLL_CTL_MOD, client->fd, &event);
        client->waits = waits;
    }
}

static uint8_t *room(struct client *client, size_t bytes)
{
    if (client->out_used + bytes > client->out_bytes) {
        client->out_bytes = (client->out_bytes + bytes) * 2;
        client->out = realloc(client->out, client->out_bytes);
        if (!client->out)
            die("no memory");
    }
    return client->out + client->out_used;
}

static void put(struct client *client, const void *packet, size_t bytes)
{
    memcpy(room(client, bytes), packet, bytes);
    client->out_used += bytes;
}

static void open_client(struct client *client, int number, size_t in_bytes, const char *role, int clean)
{
    client->number = number;
    client->in_bytes = in_bytes;
    client->in = malloc(in_bytes);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || !client->in)
        die("no memory or no socket: %s", strerror(errno));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    int on = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event))
        die("epoll: %s", strerror(errno));
    char client_id[24];
    int id_bytes = snprintf(client_id, sizeof client_id, "%s-%d", role, number);
    uint8_t packet[64] = {0x10, (uint8_t)(12 + id_bytes), 0, 4, 'M', 'Q', 'T', 'T', 4, clean ? 2 : 0, 0, 0, 0, (uint8_t)id_bytes};
    memcpy(packet + 14, client_id, (size_t)id_bytes);
    put(client, packet, (size_t)(14 + id_bytes));
    write_out(client);
}

static void count_message(struct client *client, const uint8_t *payload, size_t length)
{
    struct header header;
    if (length < HEADER || (memcpy(&header, payload, HEADER), header.magic != MAGIC) || header.sequence >= (uint64_t)messages) {
        foreign++;
        return;
    }
    uint8_t bit = (uint8_t)(1u << header.sequence % 8), *seen = &client->seen[header.sequence / 8];
    if (*seen & bit) {
        duplicates++;
        return;
    }
    *seen |= bit;
    if (header.sequence < client->next)
        out_of_order++;
    else
        client->next = header.sequence + 1;
    client->received++;
    received++;
    record(&latency, last_ns - header.sent_ns);
}

static void handle(struct client *client, uint8_t head, const uint8_t *body, size_t length)
{
    int kind = head >> 4;
    if (kind == PUBLISH) {
        size_t at = 2 + ((size_t)body[0] << 8 | body[1]);
        if (head & 6) {
            put(client, (uint8_t[]){PUBACK << 4, 2, body[at], body[at + 1]}, 4);
            at += 2;
        }
        if (at > length)
            die("short PUBLISH");
        count_message(client, body + at, length - at);
    } else if (kind == PUBACK) {
        long message = (body[0] << 8 | body[1]) - 1;
        if (client->sent_ns) { /* identifiers are 1, 2, 3 ... here, one for each message */
            if (message < 0 || message >= client->sent || !client->sent_ns[message])
                die("PUBACK of client %d for something not sent", client->number);
            record(&latency, last_ns - client->sent_ns[message]);
            client->sent_ns[message] = 0;
        }
        client->acknowledged++;
        acknowledged++;
    } else if (kind == CONNACK) {
        if (body[1])
            die("CONNECT of client %d was refused: %d", client->number, body[1]);
        if (subscribes && client->seen)
            put(client, (uint8_t[]){0x82, 12, 0, 1, 0, 7, 'f', 'a', 'n', '/', 'a', 'l', 'l', (uint8_t)qos}, 14);
        else
            client->stands = 1, standing++;
    } else if (kind == SUBACK) {
        if (body[2] != qos)
            die("SUBSCRIBE of client %d was refused: %d", client->number, body[2]);
        client->stands = 1, standing++;
    } else {
        die("unexpected packet of kind %d", kind);
    }
}

/* Read once what there is, act on every whole packet, and send the answers as one burst. */
static void read_packets(struct client *client)
{
    ssize_t got = recv(client->fd, client->in + client->in_used, client->in_bytes - client->in_used, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("client %d is lost: %s", client->number, got ? strerror(errno) : "closed by the broker");
    last_ns = now_ns();
    client->in_used += (size_t)got;
    size_t position = 0;
    while (client->in_used - position >= 2) {
        size_t at = position + 1, length = 0;
        unsigned shift = 0;
        uint8_t byte = 128;
        while (at < client->in_used && shift < 28 && byte & 128) {
            byte = client->in[at++];
            length |= (size_t)(byte & 127) << shift;
            shift += 7;
        }
        if (byte & 128 || at + length > client->in_used)
            break;
        handle(client, client->in[position], client->in + at, length);
        position = at + length;
    }
    memmove(client->in, client->in + position, client->in_used - position);
    client->in_used -= position;
    if (client->in_used == client->in_bytes)
        die("packet larger than %zu bytes", client->in_bytes);
    if (client->out_used && !client->waits)
        write_out(client);
}

/* What has happened within `timeout_ms`; whether `timer` (a descriptor, -1 for none) has run out. */
static int wait_events(int timeout_ms, int timer)
{
    struct epoll_event events[256];
    int due = 0, count = epoll_wait(epoll, events, 256, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct client *client = events[i].data.ptr;
        if (!client) {
            uint64_t ticks;
            due |= read(timer, &ticks, sizeof ticks) == sizeof ticks;
            continue;
        }
        if (events[i].events & EPOLLOUT)
            write_out(client);
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            read_packets(client);
    }
    return due;
}

static void put_publish(struct client *client, const char *topic, int packet_id, uint32_t publisher, long sequence)
{
    uint8_t packet[PACKET_BYTES], *at = packet;
    size_t topic_bytes = strlen(topic), rest = 2 + topic_bytes + (qos ? 2 : 0) + (size_t)size;
    *at++ = (uint8_t)(0x30 | qos << 1);
    do {
        *at++ = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest);
    *at++ = 0;
    *at++ = (uint8_t)topic_bytes;
    memcpy(at, topic, topic_bytes);
    at += topic_bytes;
    if (qos) {
        *at++ = (uint8_t)(packet_id >> 8);
        *at++ = (uint8_t)packet_id;
    }
    struct header header = {MAGIC, publisher, (uint64_t)sequence, now_ns()};
    memcpy(at, &header, HEADER);
    memset(at + HEADER, 'x', (size_t)size - HEADER);
    if (client->sent_ns)
        client->sent_ns[packet_id - 1] = header.sent_ns;
    put(client, packet, (size_t)(at - packet) + (size_t)size);
    client->sent++;
}

static uint64_t limit_ns(void)
{
    return now_ns() + (uint64_t)(deadline_s * 1e9);
}

/* Open `count` clients from `first` on, some tens at a time. */
static void open_clients(int first, int count, size_t in_bytes, const char *role, int clean)
{
    uint64_t limit = limit_ns();
    long stood = standing;
    for (int opened = 0; standing - stood < count;) {
        while (opened < count && opened - (standing - stood) < OPENING_MAX) {
            open_client(&all[first + opened], first + opened, in_bytes, role, clean);
            opened++;
        }
        wait_events(100, -1);
        if (now_ns() > limit)
            die("only %ld of %d clients stand", standing - stood, count);
    }
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
    puts("}");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
}

/* ---- many publishers ---- */

static int publish_by_clients(void)
{
    uint64_t begun_ns = now_ns();
    open_clients(0, clients, 1024, "client", 1);
    for (int number = 0; number < clients; number++)
        if (!(all[number].sent_ns = calloc((size_t)seconds, sizeof(uint64_t))))
            die("no memory");
    await_start(begun_ns);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
        die("timer: %s", strerror(errno));
    long total = (long)clients * seconds, next = 0;
    uint64_t start = now_ns(), limit = start + (uint64_t)((double)seconds * 1e9 + deadline_s * 1e9), late_max = 0;
    while (acknowledged < total && now_ns() < limit) {
        uint64_t now = now_ns();
        for (; next < total; next++) {
            uint64_t due = start + (uint64_t)((double)next * 1e9 / clients);
            if (due > now) {
                struct itimerspec at = {.it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}};
                timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
                break;
            }
            struct client *client = &all[next % clients];
            char topic[32];
            snprintf(topic, sizeof topic, "bench/client/%d", client->number);
            if (now - due > late_max)
                late_max = now - due;
            put_publish(client, topic, (int)client->sent + 1, (uint32_t)client->number, client->sent);
            if (!client->waits)
                write_out(client);
        }
        wait_events(100, timer);
    }
    printf("{\"sent\": %ld, \"acknowledged\": %ld, \"seconds\": %.6f, \"late_max_us\": %.1f", next, acknowledged, (double)(last_ns - start) / 1e9,
           (double)late_max / 1e3);
    print_latency("ack", &latency);
    await_end();
    return acknowledged == total ? 0 : 2;
}

/* ---- one publisher, many subscribers ---- */

static long slowest(void)
{
    uint64_t lowest = UINT64_MAX;
    for (int number = 0; number < clients; number++)
        if (all[number].next < lowest)
            lowest = all[number].next;
    return (long)lowest;
}

static int fan_out(void)
{
    uint64_t begun_ns = now_ns();
    struct client *publisher = &all[clients];
    for (int number = 0; number < clients; number++)
        if (!(all[number].seen = calloc((size_t)messages / 8 + 1, 1)))
            die("no memory");
    subscribes = 1;
    open_clients(0, clients, 1 << 17, "subscriber", !kept);
    open_clients(clients, 1, 1 << 16, "publisher", 1);
    await_start(begun_ns);
    long total = messages * clients;
    uint64_t start = now_ns(), limit = start + (uint64_t)(deadline_s * 1e9);
    last_ns = start;
    while ((received < total || (qos && acknowledged < messages)) && now_ns() < limit && now_ns() - last_ns < (uint64_t)(idle_s * 1e9)) {
        long behind = slowest();
        if (qos && acknowledged < behind)
            behind = acknowledged;
        int burst = 0;
        long released = rate > 0 ? (long)((double)(now_ns() - start) / 1e9 * rate) + 1 : messages;
        while (!publisher->waits && burst < BURST && publisher->sent < released && publisher->sent < messages && publisher->sent - behind < window) {
            put_publish(publisher, "fan/all", (int)(publisher->sent % 65535) + 1, 0, publisher->sent);
            burst++;
        }
        if (burst)
            write_out(publisher);
        wait_events(burst == BURST ? 0 : rate > 0 ? 1 : 100, -1);
    }
    double took_s = (double)(last_ns - start) / 1e9;
    printf("{\"published\": %ld, \"acknowledged\": %ld, \"deliveries\": %ld, \"seconds\": %.6f, \"deliveries_per_s\": %.1f, \"missing\": %ld, "
           "\"duplicates\": %ld, \"out_of_order\": %ld, \"foreign\": %ld",
           publisher->sent, acknowledged, received, took_s, took_s > 0 ? (double)received / took_s : 0.0, total - received, duplicates, out_of_order,
           foreign);
    print_latency("transit", &latency);
    await_end();
    return received == total ? 0 : 2;
}

int main(int count, char **arguments)
{
    if (count < 2)
        die("broker_load clients|fanout --port P ...");
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--clients")) clients = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atol(value);
        else if (!strcmp(name, "--messages")) messages = atol(value);
        else if (!strcmp(name, "--qos")) qos = atoi(value);
        else if (!strcmp(name, "--window")) window = atoi(value);
        else if (!strcmp(name, "--size")) size = atoi(value);
        else if (!strcmp(name, "--kept")) kept = atoi(value);
        else if (!strcmp(name, "--rate")) rate = atof(value);
        else if (!strcmp(name, "--idle")) idle_s = atof(value);
        else if (!strcmp(name, "--deadline")) deadline_s = atof(value);
        else die("unknown option %s", name);
    }
    if (port < 1 || clients < 1 || messages < 1 || seconds < 1 || seconds > 65535 || qos < 0 || qos > 1 || window < 1 || window > 60000 ||
        size < HEADER || size > 4096)
        die("an option is missing or out of range");
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    epoll = epoll_create1(EPOLL_CLOEXEC);
    all = calloc((size_t)clients + 1, sizeof *all);
    if (epoll < 0 || !all)
        die("no memory");
    if (!strcmp(arguments[1], "clients"))
        return publish_by_clients();
    if (!strcmp(arguments[1], "fanout"))
        return fan_out();
    die("unknown mode %s", arguments[1]);
}
