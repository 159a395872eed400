"""Benchmark suites: `kernelwright eval` runs them, and each case gives one record.

`suite` runs searches on tasks (KernelBench, modules), `synthetic` asks policies without a search.
`models` and `tritonbench` are suites of their own. `judge` has the benchmarks of the judge. `queue`
repeats all published runs.
"""
