"""Benchmark suites through the whole product, with a record for each case.

`judge` measures the judge, the other modules measure kernel writers.
"""
