"""The queue of `eval all`, which repeats all published runs.

`all.toml` lists the runs, and `runs` reads such a list. `state` says which runs are complete.
`slice` works on the queue for a limited time.
"""
