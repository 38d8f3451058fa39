/* Latencies as a histogram with 128 steps to each power of two, so an answer is right within 1 %. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H
#include <stdint.h>
#include <stdio.h>

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
