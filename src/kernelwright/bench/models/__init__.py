"""The suite of `eval models`: models of timm and transformers, compiled with
`torch.compile(model, backend="kernelwright")`.

`run` goes through the cases and starts a process (`child`) for each step. `zoo` builds models,
`blocks` lists their distinct blocks, and `measuring` measures one call.
"""
