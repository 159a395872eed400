"""Sizes that 16 does not divide, as constants of kernels over much memory."""

import re

import pytest
from judging import faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.teacher import fixed_sizes
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


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_fixed_sizes_come_first_and_every_schedule_without_them_too(build):
    texts = [candidate.source for candidate in written(ways(build(14)))]
    num = len(texts) // 2
    assert all(constants(text) for text in texts[:num])
    assert not any(constants(text) for text in texts[num:])


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_aligned_sizes_are_arguments(build, monkeypatch):
    monkeypatch.setattr(fixed_sizes, "ALIGNED", 2)
    assert not any(constants(each.source) for each in written(ways(build(14))))


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_they_are_right_here_and_at_other_sizes(build):
    program = build(14)
    first = list(written(ways(program)))[:3]
    assert faults_here_and_at_other_sizes(program, first) == []


def test_small_programs_have_none(monkeypatch):
    monkeypatch.setattr(fixed_sizes, "_LARGE", 1 << 20)
    assert not any(constants(each.source) for each in written(ways(bias(14))))
