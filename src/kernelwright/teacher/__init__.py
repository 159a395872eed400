"""The teacher: a rule-based writer of Triton kernels for programs.

`writer` takes a program of one kernel and asks the families in turn. `whole` cuts a longer program
into kernels. Each family has a folder: pointwise, reduction, contraction (matrix products), window
(convolutions and pools), attention, recurrence and movement. `nodes`, `tile` and `text` are what
the families share.
"""
