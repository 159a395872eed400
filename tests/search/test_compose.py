"""The whole program with kernels in place of fragments."""

import torch

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.compose import Replacement, compose
from kernelwright.programs.fragment import extract
from kernelwright.programs.lowering import lower
from kernelwright.search.emit import forward_function


def test_what_is_made_of_nothing_is_made_where_the_inputs_are():
    b = Builder()
    x = b.input(TensorType((2, 3)))
    [noise] = b.call("aten.randn.default", size=(2, 3))
    program = b.program(b.call("add", input=x, other=noise))
    scope: dict[str, object] = {}
    exec(compose(program, []).source, scope)
    [made] = scope["fused_operator"](torch.empty(2, 3, device="meta"))  # type: ignore[operator]
    assert made.device.type == "meta"


def test_plans_of_kernels_that_are_not_there_are_left():
    """Models plan more than they write."""
    b = Builder()
    program = b.program(b.call("relu", input=b.input(TensorType((4,)))))
    plans = tuple(KernelPlan(kernel=name, fuses=("relu",), loop="flat") for name in ("one", "two"))
    source = "def one(x):\n    return x\n\n\ndef fused_operator(x0):\n    return [one(x0)]\n"
    fragment = extract(program, frozenset({0}))
    candidate = Candidate(source=source, plan=plans, origin="hf:model")
    whole = compose(
        program, [Replacement(fragment.calls, fragment.inputs, fragment.outputs, candidate)]
    )
    assert [plan.kernel for plan in whole.plan] == ["one"]
    assert whole.origin == "hf:model"


class Counts(torch.nn.Module):
    """Its state is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(3)

    def forward(self, x):
        self.total = self.total.to(x.device) + x
        return self.total * 2


def test_a_written_forward_changes_attributes_as_the_original_does():
    original, ours = Counts(), Counts()
    lowered = lower(original, (torch.ones(3),))
    composed = compose(lowered.program, []).source
    text = forward_function(lowered, original, composed, is_for_one_mode=False)
    scope = {"refuse_gradients": lambda *_: None, "expect": lambda *_: None}
    exec(f"{composed}\n\n{text}", scope)
    for _ in range(2):
        assert torch.equal(scope["forward"](ours, torch.ones(3)), original(torch.ones(3)))  # type: ignore[operator]
    assert torch.equal(ours.total, original.total)


def test_what_calls_need_is_imported_and_no_more():
    b = Builder()
    x = b.input(TensorType((2, 3)))
    added = compose(b.program(b.call("add", input=x, other=x)), []).source
    pooled = compose(b.program(b.call("gelu", input=x)), []).source
    assert "functional as F" not in added
    assert pooled.startswith("import torch\nimport torch.nn.functional as F\n")
