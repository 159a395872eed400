"""Programs drawn at random, uniformly over a space that a recipe states.

`sample` draws one program: a skeleton (`skeletons`), then sizes (`sizes`), then draws of inputs.
`run` writes files of programs. `quality` refuses programs that are no tasks. `benchmark` names the
frozen sets.
"""
