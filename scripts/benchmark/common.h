/* What the load generators share: packet types, the header of a payload, the clock, and latencies as a histogram. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CONNACK = 2, PUBLISH = 3, PUBACK = 4, PUBREC = 5, PUBREL = 6, PUBCOMP = 7, SUBACK = 9, PINGRESP = 13 };
enum { MAGIC = 0x62736331, HEADER = 24 };

struct header {
    uint32_t magic;
    uint32_t publisher;
    uint64_t sequence;
    uint64_t sent_ns;
};

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

/* ---- latencies: a histogram with 128 steps to each power of two, so an answer is right within 1 % ---- */

enum { STEPS = 128, BUCKETS = STEPS * 40 };

struct histogram {
    uint64_t count, buckets[BUCKETS];
};

static void record(struct histogram *histogram, uint64_t ns)
{
    unsigned shift = 0;
    while ((ns >> shift) >= 2 * STEPS)
        shift++;
    unsigned bucket = shift * STEPS + (unsigned)(ns >> shift);
    histogram->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    histogram->count++;
}

static double percentile_us(const struct histogram *histogram, double share)
{
    if (!histogram->count)
        return 0;
    uint64_t wanted = (uint64_t)(share * (double)(histogram->count - 1)) + 1, seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted) {
            unsigned shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
            return (double)((uint64_t)(bucket - shift * STEPS) << shift) / 1000.0;
        }
    }
    return 0;
}

static void print_latency(const char *name, const struct histogram *histogram)
{
    printf(", \"%s_p50_us\": %.1f, \"%s_p90_us\": %.1f, \"%s_p99_us\": %.1f, \"%s_p999_us\": %.1f, \"%s_max_us\": %.1f", name,
           percentile_us(histogram, 0.5), name, percentile_us(histogram, 0.9), name, percentile_us(histogram, 0.99), name,
           percentile_us(histogram, 0.999), name, percentile_us(histogram, 1));
}

#endif
