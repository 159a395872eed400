"""The task linter: whether answering a task takes the work that the task asks for."""
