"""Benchmark suites through the whole product, with a record for each case.

`sampler` measures `synth`, `judge` measures the judge, the other modules measure kernel writers.
"""
