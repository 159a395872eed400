"""Tasks: what a candidate has to compute, at which inputs, and the fp64 answers."""
