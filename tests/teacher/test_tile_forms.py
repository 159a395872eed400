"""Forms of tiled kernels at schedules that small programs are not given."""

from dataclasses import replace

import pytest
from judging import SHARED_LIMIT_BYTES, compiled, faults
from sketch import Sketch

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction import contraction as tile_contraction
from kernelwright.teacher.contraction.forms import split_k, tiled
from kernelwright.teacher.contraction.parts import Product, ProductSchedule
from kernelwright.teacher.ways import written
from kernelwright.teacher.window import find as window_find
from kernelwright.teacher.window.gemm import ImplicitGemm
from kernelwright.teacher.writer import ways

SMALL = ProductSchedule(block_m=16, block_n=16, block_k=16, num_warps=4, precision="ieee")


def batch() -> Product:
    s = Sketch()
    t = s.bmm(s.tril(s.input(3, 40, 33)), s.input(3, 33, 37))
    return tile_contraction.find(s.program(s.relu(s.add(t, s.input(37)))))


def test_each_kernel_of_slices_says_what_it_computes():
    s = Sketch()
    t = s.mm(s.relu(s.input(40, 64)), s.input(64, 37))
    product = tile_contraction.find(s.program(s.add(t, s.exp(s.input(37)))))
    split, combine = split_k(product, replace(SMALL, split_k=2)).plan
    assert (split.kernel, split.fuses) == ("add_t3_split_kernel", ("relu", "mm"))
    assert (combine.kernel, combine.fuses) == ("add_t3_combine_kernel", ("mm", "exp", "add"))


def transposed_convolution() -> Product:
    """With phases: pixels of one phase lie apart."""
    s = Sketch()
    t = s.conv_transpose2d(s.input(2, 5, 6, 7), s.input(5, 9, 3, 3), stride=2)
    return window_find.find(s.program(s.tanh(t)), ImplicitGemm, "n")


@pytest.mark.slow
@pytest.mark.parametrize("programs", [1, 5, 1000])
@pytest.mark.parametrize("build", [batch, transposed_convolution])
def test_few_programs_walk_all_tiles(build, programs):
    product = build()
    schedule = replace(SMALL, order="taps", programs=programs, group_m=2)
    candidate = tiled(product, schedule)
    assert candidate.plan[0].loop.endswith("_persistent")
    assert faults(product.program, [candidate]) == []


def persistent(program: Program) -> list[Candidate]:
    return [c for c in written(ways(program)) if c.plan[0].loop.endswith("_persistent")]


@pytest.mark.slow
def test_products_of_many_waves_offer_it_and_say_so():
    s = Sketch()
    large = s.program(s.linear(s.input(4096, 512), s.input(4096, 512)))
    [first, *_] = persistent(large)
    assert first.plan[0].tiles["NUM_PROGRAMS"] == 132
    assert "programs walk many tiles each" in first.plan[0].why
    [usage] = compiled(large, first)
    assert usage.spills <= 128
    assert usage.shared_bytes <= SHARED_LIMIT_BYTES
    s = Sketch()
    image = s.program(s.conv2d(s.input(64, 64, 56, 56), s.input(128, 64, 3, 3)))
    assert persistent(image)


def test_products_of_few_tiles_do_not():
    s = Sketch()
    assert not persistent(s.program(s.linear(s.input(512, 512), s.input(512, 512))))
