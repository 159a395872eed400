"""Benchmark suites for kernel writers: each case gives one record. `judge` holds the benchmarks of
the judge."""
