"""In which range the result of an operator lies, from the ranges of its inputs."""
