"""Rewards of AutoTriton, TritonRL and DRTriton, and our own, as functions of an answer's outcome.
`advantages` compares the answers of a group."""
