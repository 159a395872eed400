"""The whole program with kernels in place of fragments."""

import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.search.compose import compose


def test_what_is_made_of_nothing_is_made_where_the_inputs_are():
    b = Builder()
    x = b.input(TensorType((2, 3)))
    [noise] = b.call("aten.randn.default", size=(2, 3))
    program = b.program(b.call("add", input=x, other=noise))
    scope: dict[str, object] = {}
    exec(compose(program, []).source, scope)
    [made] = scope["fused_operator"](torch.empty(2, 3, device="meta"))  # type: ignore[operator]
    assert made.device.type == "meta"
