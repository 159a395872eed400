"""Sizes that 16 does not divide, as constants of kernels over much memory."""

import re

import pytest
from judging import compiled, faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.teacher.text import fixed_sizes
from kernelwright.teacher.ways import written
from kernelwright.teacher.writer import ways


def norm(side: int) -> Program:
    s = Sketch()
    tensors = [s.input(4, 8, side, side), *(s.input(8) for _ in range(4))]
    names = ("input", "weight", "bias", "running_mean", "running_var")
    given = dict(zip(names, tensors, strict=True))
    made = s.builder.call("batch_norm_train", **given, training=True, momentum=0.1, eps=1e-5)
    return s.builder.program(list(made))


def groups(side: int) -> Program:
    s = Sketch()
    x, weight, bias = s.input(4, 8, side, side), s.input(8), s.input(8)
    return s.program(s.relu(s.group_norm(x, num_groups=2, weight=weight, bias=bias)))


def bias(side: int) -> Program:
    s = Sketch()
    return s.program(s.relu(s.add(s.input(4, 8, side, side), s.input(8, 1, 1))))


def turned(side: int) -> Program:
    s = Sketch()
    x = s.builder.input(TensorType((4, 8, side, side), "float32", Layout.CHANNELS_LAST))
    return s.program(s.add(x, s.input(4, 8, side, side)))


PROGRAMS = [norm, groups, bias, turned]


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(fixed_sizes, "_LARGE", 1 << 8)


def constants(source: str) -> set[str]:
    return set(re.findall(r"\b(n_\w+): tl\.constexpr", source))


def filter_(side: int) -> Program:
    s = Sketch()
    return s.program(s.relu(s.conv2d(s.input(2, 3, side, side), s.input(8, 3, 3, 3))))


def transposed_filter(side: int) -> Program:
    s = Sketch()
    return s.program(s.conv_transpose2d(s.input(2, 4, side, side), s.input(4, 6, 3, 3), stride=2))


FILTERS = [filter_, transposed_filter]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_fixed_sizes_come_first_and_every_schedule_without_them_too(build):
    texts = [candidate.source for candidate in written(ways(build(14)))]
    assert all(constants(text) for text in texts[:3])
    assert not constants(texts[3])
    assert sum(bool(constants(text)) for text in texts) == len(texts) // 2
    assert len({re.sub(r"(?m)^#.*", "", text) for text in texts}) == len(texts)


@pytest.mark.parametrize("shape", [(33, 64), (17,), (3, 5, 16, 16)])
def test_an_outer_size_is_an_argument(shape):
    s = Sketch()
    program = s.program(s.softmax(s.input(*shape), dim=-1))
    assert not any(constants(each.source) for each in written(ways(program)))


@pytest.mark.slow
@pytest.mark.parametrize("build", FILTERS, ids=lambda build: build.__name__)
def test_filters_of_few_channels_have_sides_as_constants(build):
    program = build(14)
    found = list(written(ways(program)))
    assert all("OW: tl.constexpr" in each.source for each in found)
    exact = [each for each in found if each.plan[0].precision in ("ieee", "tf32x3")]
    assert faults_here_and_at_other_sizes(program, exact[:: len(exact) // 2]) == []


@pytest.mark.parametrize("build", [*PROGRAMS, *FILTERS], ids=lambda build: build.__name__)
def test_they_compile(build):
    program = build(14)
    assert compiled(program, next(iter(written(ways(program)))))


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_aligned_sizes_are_arguments(build, monkeypatch):
    monkeypatch.setattr(fixed_sizes, "ALIGNED", 2)
    assert not any(constants(each.source) for each in written(ways(build(14))))


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_they_are_right_here_and_at_other_sizes(build):
    program = build(14)
    first = list(written(ways(program)))[:3]
    assert faults_here_and_at_other_sizes(program, first) == []


def test_small_programs_have_none(monkeypatch):
    monkeypatch.setattr(fixed_sizes, "_LARGE", 1 << 20)
    assert not any(constants(each.source) for each in written(ways(bias(14))))
