"""Growing fragments in programs of hundreds of calls that all fit together."""

import time

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.partition import MAX_CALLS, propose
from kernelwright.programs.program import Program

NUM_CALLS = 400


@pytest.fixture(scope="module")
def unrolled() -> Program:
    """A recurrence over time, spelled out: each step multiplies a state and adds to it."""
    builder = Builder()
    state, rate = (builder.input(TensorType((4, 8), "float32")) for _ in range(2))
    for _ in range(NUM_CALLS // 2):
        (state,) = builder.call("mul", input=state, other=rate)
        (state,) = builder.call("add", input=state, other=rate)
    return builder.program([state])


def test_a_long_loop_asks_about_each_part_once_and_only_small_ones(unrolled):
    sizes = []

    def family(part: Program) -> str:
        sizes.append(len(part.calls))
        return "pointwise"

    parts = propose(unrolled, family)
    assert frozenset().union(*parts) == frozenset(range(NUM_CALLS))
    assert max(sizes) <= MAX_CALLS
    assert len(sizes) <= 2 * NUM_CALLS


def test_a_deadline_ends_the_growth_of_one_part_too(unrolled, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    def slow_family(_: Program) -> str:
        now_s[0] += 1.0
        return "pointwise"

    parts = propose(unrolled, slow_family, for_s=10.0)
    assert max(map(len, parts)) <= 12
    assert now_s[0] <= 12.0


def of_equal_layers(num_layers: int) -> Program:
    """Each layer: a product with a weight, and four calls after it."""
    builder = Builder()
    state = builder.input(TensorType((4, 8), "float32"))
    weights = [builder.input(TensorType((8, 8), "float32")) for _ in range(num_layers)]
    for weight in weights:
        (state,) = builder.call("linear", input=state, weight=weight)
        for op in ("relu", "exp", "tanh", "abs"):
            (state,) = builder.call(op, input=state)
    return builder.program([state])


def test_the_writer_is_asked_once_about_equal_fragments_of_repeated_layers():
    def num_questions(num_layers: int) -> int:
        asked: list[Program] = []

        def family(part: Program) -> str | None:
            asked.append(part)
            return "one" if sum(call.op == "linear" for call in part.calls) <= 1 else None

        propose(of_equal_layers(num_layers), family)
        assert len(asked) == len(set(asked))
        return len(asked)

    assert num_questions(12) == num_questions(4)
