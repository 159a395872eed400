"""The task linter: whether answering a task takes the work that the task asks for.

`linter` is the entry. `algebra` reads the program, `operators` and `values` run the program, and
`findings` has the kinds of findings.
"""
