"""Recurrent layers: gates, directions, orders of dimensions; what has no form is refused."""

import pytest
from judging import faults

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.extern import RECURRENT
from kernelwright.programs.fragments.partition import propose
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.programs.tensors import meta_tensor
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.teacher.writer import family, write
from kernelwright.verify.static import findings


def layers(
    op: str, *, steps: int = 5, batch: int = 3, width: int = 6, hidden: int = 10, num: int = 1,
    both: bool = False, first: bool = False, biases: bool = True, dropout: float = 0.0,
    dtype: str = "float32", projected: int = 0,
) -> Program:  # fmt: skip
    """`num` layers in one direction or `both`, the batch `first` or second."""
    b = Builder()
    rows, out = RECURRENT[op] * hidden, projected or hidden
    given = b.input(TensorType((batch, steps, width) if first else (steps, batch, width), dtype))
    cells = num * (1 + both)
    states = [b.input(TensorType((cells, batch, out), dtype))]
    if op == "aten.lstm.input":
        states.append(b.input(TensorType((cells, batch, hidden), dtype)))
    params = []
    for cell in range(cells):
        taken = width if cell < 1 + both else (1 + both) * out
        shapes = [(rows, taken), (rows, out), *([(rows,)] * 2 if biases else [])]
        shapes += [(projected, hidden)] if projected else []
        params += [b.input(TensorType(shape, dtype)) for shape in shapes]
    return b.program(
        b.call(
            op, input=given, hx=tuple(states) if len(states) > 1 else states[0],
            params=tuple(params), has_biases=biases, num_layers=num, dropout=dropout, train=True,
            bidirectional=both, batch_first=first,
        )
    )  # fmt: skip


CASES = {
    "lstm": lambda: layers("aten.lstm.input", num=2),
    "lstm, both directions": lambda: layers("aten.lstm.input", num=2, both=True),
    "lstm, batch first": lambda: layers("aten.lstm.input", first=True, batch=1, hidden=17),
    "gru": lambda: layers("aten.gru.input", num=2),
    "gru, both directions, batch first": lambda: layers("aten.gru.input", both=True, first=True),
    "gru without biases": lambda: layers("aten.gru.input", biases=False, steps=4),
    "gru in half": lambda: layers("aten.gru.input", dtype="bfloat16", hidden=16),
    "rnn": lambda: layers("aten.rnn_tanh.input", num=2),
    "rnn with relu": lambda: layers("aten.rnn_relu.input", both=True),
}


def walked(program: Program, walk: str, **options) -> Candidate:
    """The first candidate whose programs walk "together" or "alone"."""
    tile = {"together": "PROGRAMS", "alone": "WEIGHTS"}[walk]
    return next(c for c in write(program, limit=8, **options) if tile in c.plan[1].tiles)


@pytest.mark.slow
@pytest.mark.parametrize("walk", ["together", "alone"])
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_every_step_of_every_layer_is_right(build, walk):
    program = build()
    assert faults(program, [walked(program, walk, precision="strict")]) == []


def test_candidates_hold_at_odd_sizes_they_were_not_written_for():
    program = layers("aten.lstm.input", width=32, hidden=64, steps=20, batch=20)
    candidates = [walked(program, walk, precision="strict") for walk in ("together", "alone")]
    [variant] = shape_variants(program, 1, seed=2, max_elements=1 << 10)
    assert faults(variant, candidates) == []


def test_candidates_are_distinct_legal_and_repeat_with_the_seed():
    program = layers("aten.lstm.input", num=2, both=True)
    one, same = (write(program, limit=6, seed=3) for _ in range(2))
    assert one == same
    assert len({candidate.source for candidate in one}) == 6
    for candidate in one:
        assert all(f.is_hint for f in findings(candidate.source, "pure", "fused_operator"))


@pytest.mark.slow
@pytest.mark.parametrize("walk", ["together", "alone"])
@pytest.mark.parametrize("op", ["aten.gru.input", "aten.lstm.input", "aten.rnn_tanh.input"])
def test_favourites_fit_hopper(op, walk):
    program = layers(op, steps=512, batch=10, width=128, hidden=256)
    candidate = walked(program, walk)
    given = [meta_tensor(value.type) for value in program.inputs]
    used = compile_check(candidate.source, given).kernels
    assert set(used) == {plan.kernel for plan in candidate.plan}
    assert all(kernel.spills == 0 for kernel in used.values())


@pytest.mark.parametrize("sizes", [{"batch": 64, "hidden": 1024}, {"batch": 2200, "hidden": 8}])
def test_what_does_not_fit_beside_each_other_is_walked_along_alone(sizes):
    program = layers("aten.lstm.input", **sizes)
    assert all("WEIGHTS" in c.plan[1].tiles for c in write(program, limit=40))


class Launched:
    """In place of a kernel: keeps its grids."""

    def __init__(self):
        self.grids = []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda *_, **__: None


@pytest.mark.parametrize("hidden", [5, 40, 145, 256])
@pytest.mark.parametrize("batch", [1, 10, 100, 700])
def test_programs_that_wait_for_each_other_are_no_more_than_is_said(batch, hidden):
    """They would wait without end for those that cannot begin; the launch says so instead."""
    program = layers("aten.lstm.input", batch=batch, hidden=hidden)
    together = [c for c in write(program, limit=60) if "PROGRAMS" in c.plan[1].tiles]
    assert bool(together) == (batch * hidden < 100_000)
    for each in together:
        walk, made = each.plan[1], {}
        exec(each.source.replace("@triton.jit\n", ""), made)
        made |= {plan.kernel: Launched() for plan in each.plan}
        made["fused_operator"](*(meta_tensor(value.type) for value in program.inputs))
        for programs, groups in made[walk.kernel].grids:
            assert programs * groups <= walk.tiles["PROGRAMS"]
        assert each.source.count("launch_cooperative_grid=True") == 1


def test_a_recurrent_call_is_a_fragment_of_its_own():
    program = layers("aten.gru.input")
    assert propose(program, family) == [frozenset({0})]


@pytest.mark.parametrize(
    "given", [{"dropout": 0.5, "num": 2}, {"projected": 4}, {"dtype": "float64"}]
)
def test_what_has_no_form_is_refused(given):
    program = layers("aten.lstm.input", **given)
    assert family(program) is None
    assert write(program) == []


def test_other_externs_have_no_form():
    b = Builder()
    program = b.program(b.call("aten.sort.default", self=b.input(TensorType((4,)))))
    assert family(program) is None
