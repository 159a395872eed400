"""The queue of `eval all`: the published runs as data, their state, and one slice of time."""
