"""The movement family: every operator that moves elements, at drawn and at awkward sizes."""

from collections.abc import Callable

import pytest
from judging import faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.ops.forms.registry import EXCLUDED
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.synth.recipe import DrawRecipe, ProgramBounds, Quality, SizeLimits
from kernelwright.synth.sample import Sampler
from kernelwright.teacher.movement import writer as movement
from kernelwright.teacher.movement.rules import RULES
from kernelwright.teacher.writer import family, write
from kernelwright.verify.static import findings

SMALL = {
    "sizes": SizeLimits(high=24), "bounds": ProgramBounds(bytes=(1, 1 << 16)), "width": 2,
    "quality": Quality(ranges=False, lint=False, avoid_benchmarks=False),
}  # fmt: skip
SHAPE = {operator.name for operator in operators().values() if operator.family == "shape"}
MOVES = sorted((RULES.keys() | SHAPE) - EXCLUDED.keys())


def drawn(level: int, index: int, *names: str) -> Program:
    """A program of calls of these operators."""
    made = Sampler(DrawRecipe(operators=names, **SMALL)).draw(level, 0, index, 0).program
    assert made is not None
    return made


def wrong(program: Program) -> list[str]:
    """What is wrong with the favourite here, and at other sizes of the same attributes."""
    candidates = write(program, limit=1)
    assert candidates, program
    return faults_here_and_at_other_sizes(program, candidates)


@pytest.mark.parametrize("op", MOVES)
def test_every_operator_that_moves_elements_has_a_kernel(op):
    assert wrong(drawn(1, 0, op)) == []


@pytest.mark.slow
@pytest.mark.parametrize("index", range(4))
def test_they_fuse_with_each_other_and_with_pointwise_neighbours(index):
    names = ("slice", "cat", "pad", "stack", "index_select", "tril", "relu", "add", "mul", "where")
    program = drawn(4, index, *names)
    assert family(program) is not None
    assert wrong(program) == []


# What draws do not reach


def call(op: str, of: tuple[int, ...], dtype: str = "float32", **attributes: object) -> Program:
    b = Builder()
    x = b.input(TensorType(of, dtype))
    return b.program(b.call("relu", input=b.call(op, input=x, **attributes)[0]))


def joined(dim: int, layout: Layout = Layout.CONTIGUOUS) -> Program:
    """Three images of different depth, the second one scaled, all of them through a ReLU."""
    b = Builder()
    depths = [3, 1, 6] if dim == 1 else [3, 3, 3]
    images = [b.input(TensorType((2, depth, 5, 4), "float32", layout)) for depth in depths]
    [images[1]] = b.call("mul", input=images[1], other=2.0)
    [t] = b.call("cat", tensors=tuple(images), dim=dim)
    return b.program(b.call("relu", input=t))


def mixed_dtypes() -> Program:
    b = Builder()
    given = [b.input(TensorType((3, 5), dtype)) for dtype in ("float16", "int32", "float32")]
    return b.program(b.call("cat", tensors=tuple(given), dim=-1))


def embedded_twice() -> Program:
    """A table looked up by indices that another table gives; the sum of two embeddings."""
    b = Builder()
    tokens, places = b.input(TensorType((2, 7), "int64")), b.input(TensorType((7,), "int64"))
    [t] = b.call("embedding", input=tokens, weight=b.input(TensorType((11, 12))))
    [u] = b.call("embedding", input=places, weight=b.input(TensorType((9, 12))))
    return b.program(b.call("add", input=t, other=u))


def halves_swapped() -> Program:
    """What rotary embeddings do to a head."""
    b = Builder()
    x, cos = b.input(TensorType((2, 3, 6, 8))), b.input(TensorType((6, 8)))
    first, second = b.call("chunk", input=x, chunks=2, dim=-1)
    [t] = b.call("cat", tensors=(b.call("neg", input=second)[0], first), dim=-1)
    return b.program(b.call("mul", input=t, other=cos))


CASES: dict[str, Callable[[], Program]] = {
    "from the end": lambda: call("slice", (7, 9), dim=1, start=-4, end=-1),
    "every other": lambda: call("slice", (7, 9), dim=0, start=1, step=2),
    "an empty start": lambda: call("slice", (7, 9), dim=1, end=1 << 40),
    "the last of all": lambda: call("select", (5, 6), dim=0, index=-1),
    "of a vector": lambda: call("select", (5,), dim=0, index=2),
    "borders cut off and added": lambda: call("pad", (3, 5, 6), pad=(-1, 2, 3, -2), value=1.5),
    "uneven chunks": lambda: call("chunk", (11, 4), chunks=3, dim=0),
    "all elements rolled": lambda: call("roll", (3, 5), shifts=-4),
    "two dimensions rolled": lambda: call("roll", (3, 5, 2), shifts=(7, -1), dims=(1, 0)),
    "a view that divides nothing": lambda: call("reshape", (6, 4), shape=(8, 3)),
    "images side by side": lambda: joined(2),
    "channels joined": lambda: joined(1),
    "channels joined, channels-last": lambda: joined(1, Layout.CHANNELS_LAST),
    "bicubic": lambda: call("interpolate", (2, 3, 5, 4), scale_factor=1.7, mode="bicubic"),
    "to one pixel": lambda: call("interpolate", (2, 3, 4, 5), size=(1, 1)),
    "nearest-exact": lambda: call("interpolate", (2, 3, 7), size=(10,), mode="nearest-exact"),
    "mixed dtypes": mixed_dtypes,
    "embeddings": embedded_twice,
    "halves swapped": halves_swapped,
}


@pytest.mark.slow
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_awkward_cases(build):
    assert wrong(build()) == []


def test_candidates_are_distinct_legal_and_repeat_with_the_seed():
    program = joined(1)
    one, same = (write(program, limit=4, seed=3, precision="strict") for _ in range(2))
    assert one == same
    assert len({candidate.source for candidate in one}) == 4
    for candidate in one:
        assert all(f.is_hint for f in findings(candidate.source, "pure", "fused_operator"))


def test_rows_are_as_long_as_no_element_needs_a_division():
    [candidate] = write(joined(1), limit=1, seed=0, precision="strict")
    columns = [line for line in candidate.source.splitlines() if "offs_n //" in line]
    assert columns == []
    assert "N = X0D2 * X0D3" in candidate.source


def test_tensors_of_2_to_the_31_elements_use_64_bit_offsets():
    program = call("flip", (1 << 16, 1 << 15), dims=(0,))
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    assert "pid = tl.program_id(0).to(tl.int64)" in candidate.source
    assert "ValueError" not in candidate.source


def test_what_computes_more_is_not_claimed():
    b = Builder()
    [t] = b.call("flip", input=b.input(TensorType((4, 5))), dims=(0,))
    assert not movement.classify(b.program(b.call("softmax", input=t, dim=1)))
    assert not movement.classify(call("exp", (4, 5)))
    assert not movement.classify(call("flip", (4, 5), "float64", dims=(0,)))


def test_a_kernel_is_given_every_dimension_of_a_tensor_or_none():
    """Which of them its index needs is known in its last line, and its signature stands first."""
    s = Sketch()
    rolled = s.roll(s.input(4, 5, 6), shifts=(1,), dims=(2,))
    [found] = write(s.program(s.add(rolled, s.input(5, 1))), limit=1)
    signature = found.source.partition("BLOCK_M: tl.constexpr")[0]
    assert "    X0D0, X0D1, X0D2, M, T0SHIFT2,\n" in signature
    assert "X1D0" not in signature
    assert "    X0D0, X0D1, X0D2 = x0.shape\n" in found.source
