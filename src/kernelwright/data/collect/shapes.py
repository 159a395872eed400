"""Guesses the shape of a module's main input, from its name, configuration, layers, parameters and
integer attributes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from kernelwright.data.collect.guesses import BATCH, CHANNELS, LENGTH, SIDE, WIDTH

Shape = tuple[int, ...]

_ROWS = 1024
"""The rows of a matrix that is no sequence."""
_MAX_HINTS = 6
"""Layers that are asked: the first of them see the input."""
_LEAST_WIDTH = 4
_IMAGES = (224, 64, 28)
"""Further sides, for networks whose last layer fits one size only."""


def primary_shapes(module: nn.Module) -> list[Shape]:
    """Shapes that the module's main input may have, likeliest first, without repeats."""
    shapes = [
        *_of_config(module),
        *_of_layers(module),
        *_of_parameters(module),
        *_of_numbers(module),
    ]
    rank = _rank_of_name(type(module).__name__)
    if rank is not None:
        shapes.sort(key=lambda shape: len(shape) != rank)
    return list(dict.fromkeys([*shapes, *_usual(rank)]))


def one_of_each_width(shapes: Sequence[Shape]) -> list[Shape]:
    """The first shape for each number of features (the last size) or channels (of images)."""
    by_width: dict[tuple[bool, int], Shape] = {}
    for shape in shapes:
        is_image = len(shape) > 3
        by_width.setdefault((is_image, shape[1 if is_image else -1]), shape)
    return list(by_width.values())


def _rank_of_name(name: str) -> int | None:
    match = re.search(r"([123])d", name, re.IGNORECASE)
    return int(match[1]) + 2 if match else None


def _usual(rank: int | None) -> list[Shape]:
    """Usual shapes, for modules that take any: matrix, image, sequence, volume, vector and others.

    Those of the given rank come first.
    """
    shapes: list[Shape] = [
        (_ROWS, _ROWS), (BATCH, CHANNELS, SIDE, SIDE), (BATCH, LENGTH, WIDTH),
        (BATCH, CHANNELS, LENGTH), (BATCH, 32, 16, SIDE, SIDE), (1 << 20,), (BATCH, 8, LENGTH, 64),
        (BATCH, 3, 224, 224),
    ]  # fmt: skip
    return sorted(shapes, key=lambda shape: rank is not None and len(shape) != rank)


def width_of(layer: nn.Module) -> int | None:
    """The size of the features or channels that a usual layer expects; None for other layers."""
    for attribute in ("in_features", "in_channels", "num_features", "num_channels", "input_size",
                      "embed_dim"):  # fmt: skip
        if isinstance(size := getattr(layer, attribute, None), int):
            return size or None  # 0 of a layer that waits for its input
    return None


def _of_layers(module: nn.Module) -> Iterator[Shape]:
    hints = 0
    for layer in module.modules():
        shapes = list(_of_layer(layer))
        yield from shapes
        hints += bool(shapes)
        if hints == _MAX_HINTS:
            return


def _of_layer(layer: nn.Module) -> Iterator[Shape]:
    kind = type(layer).__name__
    width = width_of(layer)
    if width is None:
        size = getattr(layer, "normalized_shape", None)
        if isinstance(size, tuple) and size:
            yield (BATCH, LENGTH, *size)[-max(3, len(size) + 1) :]
        return
    rank = _rank_of_name(kind)
    if kind.startswith(("BatchNorm1d", "InstanceNorm1d")):
        yield from [(BATCH, width, LENGTH), (_ROWS, width)]
    elif rank is not None or kind == "GroupNorm":
        yield from _images(width, rank or 4)
    else:  # last dimension
        yield from _rows(width)


def _images(channels: int, rank: int) -> Iterator[Shape]:
    if rank == 3:
        yield (BATCH, channels, LENGTH)
    elif rank == 5:
        yield (BATCH, channels, 16, SIDE, SIDE)
    else:
        yield from ((BATCH, channels, side, side) for side in (SIDE, *_IMAGES))


def _rows(width: int) -> Iterator[Shape]:
    yield from ((BATCH, LENGTH, width), (_ROWS, width), (BATCH, 16, 16, width))


def _of_parameters(module: nn.Module) -> Iterator[Shape]:
    """Shapes from a module's own parameters, whose sizes are often those of its input."""
    for parameter in module.parameters(recurse=False):
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            continue
        shape = tuple(parameter.shape)
        if len(shape) == 1 and shape[0] >= _LEAST_WIDTH:
            yield from (*_rows(shape[0]), (BATCH, shape[0], SIDE, SIDE))
        elif len(shape) == 2:
            yield from (*_rows(shape[1]), *_rows(shape[0]))
        elif len(shape) > 2:
            yield from (shape, (BATCH, shape[1], *[SIDE] * (len(shape) - 2)))


def _of_numbers(module: nn.Module) -> Iterator[Shape]:
    """Shapes from integers that a module keeps as attributes: most often they are widths."""
    for name, value in sorted(vars(module).items()):
        if type(value) is int and value >= 16 and not name.startswith("_"):
            yield from (*_rows(value), (BATCH, value, SIDE, SIDE))


def _of_config(module: nn.Module) -> Iterator[Shape]:
    """The shape that a configuration implies: an image, or tokens of its hidden size."""
    config: Any = getattr(module, "config", None)
    side = getattr(config, "image_size", None)
    if isinstance(side, int) and not isinstance(side, bool):
        yield (BATCH, getattr(config, "num_channels", 3), side, side)
    for name in ("hidden_size", "d_model", "n_embd", "embed_dim", "dim"):
        if isinstance(width := getattr(config, name, None), int):
            yield from _rows(width)
