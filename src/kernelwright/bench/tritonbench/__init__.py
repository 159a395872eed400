"""TritonBench: scores code for its tasks, by the benchmark's metrics and by our judge.

`run` is the entry. `checkout` reads the tasks, `predictions` reads code for them, and `asked` asks
a model for code. `stages` runs the benchmark's scripts, and has the calls of the tests turned into
texts for the judge (`posing`, `forms`). `cases` makes the record of a task.
"""
