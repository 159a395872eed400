"""Fingerprints: the same graph in any spelling has one, and every change of the graph another."""

import random
from dataclasses import replace
from functools import partial
from itertools import permutations

import pytest
import torch
from drawing import draw_program, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs.build import Builder, rename
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Call, Init, Input, Program
from kernelwright.programs.text import parse

shapeless = partial(fingerprint, sizes=False)
TEXT = """
import torch
import torch.nn.functional as F

def get_inputs():
    x0 = torch.randn((4, 8))
    x1 = torch.randn((4, 8))
    return [x0, x1]

def fused_operator(x0, x1):
    {body}
    return [{returned}]
"""


def program(body: str, returned: str = "y") -> Program:
    """The program whose body is this line of statements."""
    return parse(TEXT.format(body=body, returned=returned))


def shuffled(program: Program, rng: random.Random) -> Program:
    """The same graph: other names, another order of calls, inputs, results and of operands."""
    waiting, calls = list(program.calls), []
    made = {value.name for value in program.inputs}
    while waiting:
        ready = [call for call in waiting if made.issuperset(call.refs())]
        calls.append(rng.choice(ready))
        waiting.remove(calls[-1])
        made.update(calls[-1].outputs)
    calls = [_swapped(call) if rng.random() < 0.5 else call for call in calls]
    inputs, outputs = list(program.inputs), list(program.outputs)
    rng.shuffle(inputs)
    rng.shuffle(outputs)
    names = [f"v{i}" for i in range(len(made))]
    rng.shuffle(names)
    moved = Program(tuple(inputs), tuple(calls), tuple(outputs))
    return rename(moved, dict(zip(sorted(made), names, strict=True)))


def _swapped(call: Call) -> Call:
    given = dict(call.args)
    names = () if call.is_extern else call.operator.commutes
    if not names or given.get("alpha", 1) != 1:
        return call
    left, right = names
    other = {left: right, right: left}
    return replace(call, args=tuple((other.get(name, name), value) for name, value in call.args))


@settings(max_examples=60, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_names_and_orders_do_not_matter(program, rng):
    other = shuffled(program, rng)
    assert fingerprint(other) == fingerprint(program)
    assert shapeless(other) == shapeless(program)
    idle = Input("idle", TensorType((2, 2)))
    drawn = tuple(replace(value, init=Init("rand", 0.5, 2.0)) for value in program.inputs)
    assert fingerprint(replace(program, inputs=(*drawn, idle))) == fingerprint(program)


@settings(max_examples=60, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_one_call_or_type_changed_is_another_program(program, rng):
    at = rng.randrange(len(program.calls))
    call = program.calls[at]
    changed = replace(call, op="aten.nonsense.default")
    calls = (*program.calls[:at], changed, *program.calls[at + 1 :])
    assert shapeless(replace(program, calls=calls)) != shapeless(program)
    first = program.inputs[0]
    if any(first.name in call.refs() for call in program.calls):
        narrow = replace(first, type=replace(first.type, dtype="float16"))
        other = replace(program, inputs=(narrow, *program.inputs[1:]))
        assert fingerprint(other) != fingerprint(program)
        assert shapeless(other) == shapeless(program)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t = torch.relu(x0); y = t + t", "y = torch.relu(x0) + torch.relu(x0)"),
        ("y = x0 + x0", "y = x0 + x1"),
        ("y = x0 - x1 * x0", "y = x0 - x1 * x1"),
        ("y = x0 - torch.relu(x0)", "y = torch.relu(x0) - x0"),
        ("y = torch.add(x0, x1.t().t(), alpha=2)", "y = torch.add(x1.t().t(), x0, alpha=2)"),
        ("y = torch.cat((x0, torch.relu(x0)))", "y = torch.cat((torch.relu(x0), x0))"),
        ("y = torch.sum(x0, dim=0)", "y = torch.sum(x0, dim=1)"),
        ("y = torch.sum(x0, dim=0)", "y = torch.sum(x0, dim=0, keepdim=True)"),
        ("y = torch.max(x0, dim=1)[0]", "y = torch.max(x0, dim=1)[1]"),
        ("y = F.gelu(x0)", 'y = F.gelu(x0, approximate="tanh")'),
        (
            "t0 = x0 + x1; t1 = torch.relu(t0); y = torch.exp(t0) * (t1 * t1)",
            "t0 = x0 + x1; t1 = torch.relu(t0); y = (torch.exp(t0) * t1) * t1",
        ),
    ],
)  # fmt: skip
def test_wiring_sharing_slots_and_dimensions_matter(one, other):
    assert fingerprint(program(one)) != fingerprint(program(other))
    assert shapeless(program(one)) != shapeless(program(other))


def test_what_is_returned_matters():
    body = "y = torch.relu(x0); z = y * x1"
    found = {fingerprint(program(body, returned)) for returned in ("z", "y, z", "y, z, z", "y")}
    assert len(found) == 4
    assert fingerprint(program(body, "z, y")) == fingerprint(program(body, "y, z"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = torch.sum(x0, dim=-1)", "y = torch.sum(x0, dim=1)"),
        ("y = torch.sum(x0)", "y = torch.sum(x0, dim=(1, 0))"),
        ("y = torch.unsqueeze(x0, dim=-1)", "y = torch.unsqueeze(x0, dim=2)"),
        ("y = 2.0 * x0", "y = x0 * 2.0"),
    ],
)
def test_one_spelling_of_dimensions_and_of_a_number_as_an_operand(one, other):
    assert fingerprint(program(one)) == fingerprint(program(other))


def convolution(shape, weight, dtype="float32", layout=Layout.CONTIGUOUS, **attributes) -> Program:
    builder = Builder()
    x = builder.input(TensorType(shape, dtype, layout))
    w = builder.input(TensorType(weight, dtype))
    (t,) = builder.call("conv2d", input=x, weight=w, **attributes)
    (t,) = builder.call("mul", input=t, other=attributes.get("groups", 1) + 0.5)
    return builder.program(builder.call("softmax", input=t, dim=1))


def test_without_sizes_shapes_dtypes_layouts_and_numbers_are_left_out():
    small = convolution((1, 4, 8, 8), (4, 4, 3, 3))
    variants = [
        convolution((2, 8, 9, 9), (16, 8, 1, 1)),
        convolution((1, 4, 8, 8), (4, 4, 3, 3), "float16"),
        convolution((1, 4, 8, 8), (4, 4, 3, 3), layout=Layout.CHANNELS_LAST),
        convolution((1, 4, 8, 8), (4, 2, 3, 3), groups=2, stride=(2, 2)),
    ]
    assert {shapeless(small)} == set(map(shapeless, variants))
    assert len({fingerprint(small), *map(fingerprint, variants)}) == 5


def test_without_sizes_matrix_products_of_any_rank_are_one():
    one, other = program("y = torch.mm(x0, x1.t())"), program("y = torch.matmul(x0, x1.t())")
    assert shapeless(one) == shapeless(other) != shapeless(program("y = torch.matmul(x1.t(), x0)"))
    assert fingerprint(one) != fingerprint(other)


def test_fingerprints_stay_what_they_are():
    """Data sets hold them: a change of the form is a change of every record."""
    made = program("y = torch.relu(x0 * x1)")
    assert (fingerprint(made), shapeless(made)) == ("c4bfdd7bc8d65beb", "5524422c050d293e")


def test_random_programs_of_different_text_differ():
    drawn = [draw_program(seed, 4) for seed in range(300)]
    texts = {(tuple((v.type) for v in p.inputs), p.calls, p.outputs): fingerprint(p) for p in drawn}
    assert len(set(texts.values())) > 0.95 * len(texts)


@pytest.mark.parametrize(
    "op", [op for op in operators().values() if op.commutes], ids=lambda op: op.name
)
def test_operands_that_commute_do(op):
    given = {"input": torch.tensor([True, False, True, False])}
    left, right = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    dtype = torch.bool if op.name.startswith("bitwise") else torch.float32
    orders = [dict(zip(op.commutes, order, strict=True)) for order in permutations((left, right))]
    one, other = (
        getattr(torch, op.name)(**{k: v.to(dtype) for k, v in (given | order).items()})
        for order in orders
    )
    assert torch.equal(one, other)
