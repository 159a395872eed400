"""The flat program: operator calls on typed values, in the order of their computation.

`lowering` makes programs from modules, `text` prints them, `parsing` reads them back. `fragments`
takes parts out and puts kernels back in. `algebra` and `rewrites` change a program without a change
of its values, `resizing` and `sizes` give the program other sizes, `draws` says how its inputs are
drawn. `capture` helps `lowering`, `reference` runs programs in PyTorch, `traffic` estimates bytes
and launches.
"""
