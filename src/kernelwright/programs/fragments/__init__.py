"""Fragments: parts of a program that one candidate can replace. `partition` proposes fragments,
`combine` chooses verified fragments, and `compose` writes the program with their kernels."""
