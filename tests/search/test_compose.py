"""The whole program with kernels in place of fragments."""

import torch

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.compose import Replacement, compose
from kernelwright.programs.fragments.fragment import extract
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program
from kernelwright.search.module.forward import forward_of
from kernelwright.search.module.guards import LoweredModule


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


def copies(*names: str) -> Candidate:
    """A candidate that returns its inputs."""
    given, kernel = ", ".join(names), f"copy_{len(names)}"
    source = f"def {kernel}(x):\n    return x\n\n\n"
    source += f"def fused_operator({given}):\n    return [{given}]\n"
    plans = (KernelPlan(kernel=kernel, fuses=("relu",), loop="flat"),)
    return Candidate(source=source, plan=plans)


def branches() -> Program:
    """t0 waits for nothing, t1 for nothing; t2 = t0 + t1; t3 = relu(t1)"""
    b = Builder()
    x = b.input(TensorType((4,)))
    [late] = b.call("relu", input=x)
    [early] = b.call("exp", input=x)
    [both] = b.call("add", input=late, other=early)
    [last] = b.call("relu", input=early)
    return b.program([both, last])


def of(program: Program, *parts: set[int]) -> list[Replacement]:
    fragments = [extract(program, part) for part in parts]
    return [
        Replacement(f.calls, f.inputs, f.outputs, copies(*(v.name for v in f.program.inputs)))
        for f in fragments
    ]


def test_plans_definitions_and_calls_are_in_the_order_of_execution():
    program = branches()
    whole = compose(program, of(program, {0, 2}, {1}))
    lines = whole.source.splitlines()
    assert [line for line in lines if "fused_" in line and line.startswith(("def", "    ["))] == [
        "def fused_exp_t1(x0):",
        "def fused_add_t2(x0, x1):",
        "def fused_operator(x0):",
        "    [t1] = fused_exp_t1(x0)",
        "    [t2] = fused_add_t2(x0, t1)",
    ]
    assert [plan.makes for plan in whole.plan] == [("t1",), ("t2",)]
    assert [plan.reads for plan in whole.plan] == [("x0",), ("x0", "t1")]


def test_the_plan_of_a_kernel_that_fragments_share_says_what_it_computes_for_all():
    program = branches()
    whole = compose(program, of(program, {0}, {3}))
    (plan,) = whole.plan
    assert (plan.part, plan.reads, plan.makes) == (("t0", "t3"), ("x0", "t1"), ("t0", "t3"))
    assert whole.source.count("def copy_1") == 1


def test_values_are_deleted_after_their_last_use_where_that_is_asked_for():
    program = branches()
    parts = of(program, {0}, {1}, {2}, {3})
    assert "    del t0\n" in compose(program, parts).source
    assert "del " not in compose(program, parts, deletes=False).source


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
    forward = forward_of(
        LoweredModule(module=original, lowered=lowered, is_for_one_mode=False), composed
    )
    scope = {}
    exec(f"{forward.preamble}{forward.method}", scope)
    for _ in range(2):
        assert torch.equal(scope["forward"](ours, torch.ones(3)), original(torch.ones(3)))  # type: ignore[operator]
    assert torch.equal(ours.total, original.total)


class Limits(torch.nn.Module):
    """Makes constants that have no literal."""

    def forward(self, x):
        low, most = torch.tensor(float("-inf")), torch.tensor([[float("inf")], [float("nan")]])
        return torch.where(x > 0, x, low), x + most.to(x.device)


def test_a_written_forward_has_constants_that_have_no_literal():
    lowered = lower(Limits(), (torch.ones(3),))
    composed = compose(lowered.program, []).source
    forward = forward_of(
        LoweredModule(module=Limits(), lowered=lowered, is_for_one_mode=False), composed
    )
    scope = {}
    exec(f"{forward.preamble}{forward.method}", scope)
    x = torch.tensor([-1.0, 0.0, 2.0])
    ours, theirs = scope["forward"](Limits(), x), Limits()(x)  # type: ignore[operator]
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, wanted, equal_nan=True)


def test_what_calls_need_is_imported_and_no_more():
    b = Builder()
    x = b.input(TensorType((2, 3)))
    added = compose(b.program(b.call("add", input=x, other=x)), []).source
    pooled = compose(b.program(b.call("gelu", input=x)), []).source
    assert "functional as F" not in added
    assert pooled.startswith("import torch\nimport torch.nn.functional as F\n")
