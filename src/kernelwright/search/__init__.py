"""The search: a module's fragments become verified kernels wherever a kernel wins.

`api` and `optimize` are the entries. `target` reads what the user names. `search` proposes
fragments of each form of the program, and `tune` finds the fastest correct kernel of one fragment.
`contest` times the whole against PyTorch and torch.compile. `module` writes optimized.py.
"""
