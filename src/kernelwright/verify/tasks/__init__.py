"""Tasks: the computation that a candidate must perform, the inputs of its cases, and the float64
answers. `load` makes tasks, `cases` poses cases, and `variation` changes a task."""
