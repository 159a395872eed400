"""What moves elements in front of a convolution is part of its kernel."""

from collections.abc import Callable

import pytest
from judging import SHARED_LIMIT_BYTES, compiled, faults, faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.teacher.ways import Way, written
from kernelwright.teacher.writer import family, ways, write


def joined_channels(layout: Layout = Layout.CONTIGUOUS) -> Program:
    """As a decoder joins what it has to what the encoder left."""
    s = Sketch()
    images = [s.builder.input(TensorType((2, c, 6, 7), "float32", layout)) for c in (5, 3)]
    weights = s.builder.input(TensorType((9, 8, 3, 3), "float32", layout))
    return s.program(s.relu(s.conv2d(s.cat(tensors=tuple(images), dim=1), weights, padding=1)))


def joined_channels_last() -> Program:
    return joined_channels(Layout.CHANNELS_LAST)


def padded_on_two_sides() -> Program:
    s = Sketch()
    t = s.pad(s.input(2, 4, 6, 5), pad=(0, 1, 0, 1))
    return s.program(s.conv2d(t, s.input(7, 4, 3, 3), stride=2))


def padded_with_ones() -> Program:
    s = Sketch()
    t = s.pad(s.relu(s.input(2, 4, 11)), pad=(2, 1), value=1.0)
    return s.program(s.conv1d(t, s.input(7, 4, 3), padding=1))


def causal_depthwise() -> Program:
    s = Sketch()
    t = s.pad(s.input(2, 6, 13), pad=(3, 0))
    return s.program(s.silu(s.conv1d(t, s.input(6, 1, 4), groups=6)))


def cropped() -> Program:
    s = Sketch()
    t = s.slice(s.slice(s.input(2, 4, 9, 10), dim=2, start=1, end=8), dim=3, start=2)
    return s.program(s.conv2d(t, s.input(5, 4, 3, 3)))


def half_of_the_channels() -> Program:
    s = Sketch()
    x, w = s.input(2, 8, 6, 7, dtype="float16"), s.input(5, 4, 1, 1, dtype="float16")
    return s.program(s.conv2d(s.slice(x, dim=1, start=4), w))


def shuffled_weights() -> Program:
    s = Sketch()
    w = s.flip(s.input(5, 4, 3, 3), dims=(2, 3))
    return s.program(s.conv2d(s.input(2, 4, 6, 7), w))


def rolled_and_transposed() -> Program:
    s = Sketch()
    t = s.roll(s.input(2, 4, 5, 6), shifts=(1, 2), dims=(2, 3))
    return s.program(s.conv_transpose2d(t, s.input(4, 5, 3, 3), stride=2, padding=1))


def patches_merged() -> Program:
    """A reshape that no window can slide over."""
    s = Sketch()
    t = s.reshape(s.cat(tensors=(s.input(2, 4, 18), s.input(2, 4, 18)), dim=1), shape=(2, 8, 6, 3))
    return s.program(s.conv2d(t, s.input(5, 8, 3, 2), padding=1))


PROGRAMS: tuple[Callable[[], Program], ...] = (
    joined_channels,
    joined_channels_last,
    padded_on_two_sides,
    padded_with_ones,
    causal_depthwise,
    cropped,
    half_of_the_channels,
    shuffled_weights,
    rolled_and_transposed,
    patches_merged,
)


def unlike(program: Program) -> list[Way]:
    """The best way of each form and order of the loop."""
    strict = [way for way in ways(program) if way.kind[2] in ("ieee", "tf32x3")]
    return list({(way.kind[0], way.kind[3]): way for way in reversed(strict)}.values())


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_what_moves_elements_is_folded_and_right(build):
    program = build()
    assert family(program) == "convolution"
    assert faults(program, list(written(unlike(program)))) == []


@pytest.mark.slow
@pytest.mark.parametrize("build", [padded_on_two_sides, cropped])
def test_other_sizes_are_right_too(build):
    program = build()
    assert faults_here_and_at_other_sizes(program, write(program, limit=1)) == []


@pytest.mark.slow
def test_joined_images_of_a_large_convolution_fit_hopper():
    s = Sketch()
    t = s.cat(tensors=(s.input(8, 128, 64, 64), s.input(8, 64, 64, 64)), dim=1)
    program = s.program(s.conv2d(t, s.input(128, 192, 3, 3), padding=1))
    [candidate] = write(program, limit=1)
    assert all(u.shared_bytes <= SHARED_LIMIT_BYTES for u in compiled(program, candidate))


def gray_as_colours() -> Program:
    """An image of one channel before a network that takes three."""
    s = Sketch()
    t = s.broadcast_to(s.input(2, 1, 6, 7), size=(-1, 3, -1, -1))
    return s.program(s.conv2d(t, s.input(4, 3, 3, 3)))


def repeated_gray() -> Program:
    s = Sketch()
    t = s.repeat(s.input(2, 1, 6, 7), repeats=(1, 3, 1, 1))
    return s.program(s.conv2d(t, s.input(4, 3, 3, 3)))


def weights_cut_out_of_the_image() -> Program:
    s = Sketch()
    x = s.input(2, 4, 6, 7)
    return s.program(s.conv2d(x, s.slice(x, dim=2, start=0, end=2)))


@pytest.mark.parametrize("build", [gray_as_colours, repeated_gray, weights_cut_out_of_the_image])
def test_tiles_of_every_way_have_all_axes_and_a_name_of_their_own(build):
    program = build()
    kinds = {way.kind: way for way in ways(program) if way.is_sure}
    assert faults(program, list(written(kinds.values()))) == []
