"""A library of kernels that the judge accepted: the next search of the same program starts there.

`entry` defines what is kept and under which key, `store` keeps the entries on disk.
"""
