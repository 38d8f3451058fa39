"""Random and hostile bytes: a seeded fuzzer of recorded traffic, and a target for fuzzers from outside."""
