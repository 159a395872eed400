"""Sizes of a program. `equations` solves equations between sizes, `reading` makes the conditions on
the free sizes, and `draw` draws sizes from all solutions. `measure` says which sizes are likely."""
