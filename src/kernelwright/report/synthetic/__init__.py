"""The page of a run of `eval synthetic`: a policy answers programs without a search."""
