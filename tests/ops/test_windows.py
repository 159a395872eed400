"""Output sizes of windows against PyTorch over random kernels, strides, paddings, dilations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.windows import spread

REFUSALS = (RuntimeError, ValueError, IndexError)
SPATIAL = st.integers(1, 3)


def numbers(spatial: int, low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(low, high)] * spatial)


def agree(name: str, eager: Callable[[], torch.Tensor], bound: dict[str, Any]) -> bool:
    """Rule and PyTorch give one shape, or both refuse; whether they accepted. No program holds
    tensors without elements, which PyTorch lets some transposed convolutions make."""
    operator = operators()[name]
    bound = {p.name: p.default for p in operator.params} | bound
    try:
        expected = tuple(eager().shape)
        if 0 in expected:
            raise ValueError("nothing is left")
    except REFUSALS:
        with pytest.raises(ValueError, match=r"\w"):
            operator.types(bound)
        return False
    assert operator.types(bound)[0].shape == expected
    return True


@given(st.data(), SPATIAL)
@settings(max_examples=150)
def test_convolutions_have_the_sizes_of_pytorch(data, spatial):
    sizes = data.draw(numbers(spatial, 1, 7))
    kernel = data.draw(numbers(spatial, 1, 4))
    groups = data.draw(st.integers(1, 3))
    padding = data.draw(numbers(spatial, 0, 3) | st.sampled_from(["same", "valid"]))
    attributes = {
        "stride": data.draw(numbers(spatial, 1, 3)),
        "dilation": data.draw(numbers(spatial, 1, 3)),
        "padding": padding,
        "groups": groups,
    }
    shape = (2, data.draw(st.sampled_from([2, 6])), *sizes)
    weight = (data.draw(st.sampled_from([3, 6])), data.draw(st.integers(1, 2)), *kernel)
    x, w = torch.empty(shape), torch.empty(weight)
    name = f"conv{spatial}d"
    agree(
        name,
        lambda: getattr(F, name)(x, w, **attributes),
        {"input": TensorType(shape), "weight": TensorType(weight), **attributes},
    )


@given(st.data(), SPATIAL)
@settings(max_examples=150)
def test_transposed_convolutions_have_the_sizes_of_pytorch(data, spatial):
    sizes = data.draw(numbers(spatial, 1, 4))
    kernel = data.draw(numbers(spatial, 1, 4))
    attributes = {
        "stride": data.draw(numbers(spatial, 1, 3)),
        "padding": data.draw(numbers(spatial, 0, 3)),
        "output_padding": data.draw(numbers(spatial, 0, 3)),
        "dilation": data.draw(numbers(spatial, 1, 3)),
        "groups": data.draw(st.integers(1, 3)),
    }
    shape = (2, data.draw(st.sampled_from([2, 6])), *sizes)
    weight = (data.draw(st.sampled_from([2, 6])), 2, *kernel)
    x, w = torch.empty(shape), torch.empty(weight)
    name = f"conv_transpose{spatial}d"
    agree(
        name,
        lambda: getattr(F, name)(x, w, **attributes),
        {"input": TensorType(shape), "weight": TensorType(weight), **attributes},
    )


@given(st.data(), SPATIAL, st.sampled_from(["avg", "max"]), st.booleans())
@settings(max_examples=300)
def test_pools_have_the_sizes_of_pytorch(data, spatial, kind, ceil_mode):
    attributes = {
        "kernel_size": data.draw(numbers(spatial, 0, 4)),
        "stride": data.draw(numbers(spatial, 1, 4)),
        "padding": data.draw(numbers(spatial, 0, 3)),
        "ceil_mode": ceil_mode,
    }
    if kind == "max":
        attributes["dilation"] = data.draw(numbers(spatial, 1, 3))
    batch = data.draw(st.sampled_from([(), (2,)]))
    shape = (*batch, 3, *data.draw(numbers(spatial, 1, 7)))
    x, name = torch.empty(shape), f"{kind}_pool{spatial}d"
    agree(
        name,
        lambda: getattr(F, name)(x, **attributes),
        {"input": TensorType(shape), **attributes},
    )


@given(st.data(), SPATIAL, st.floats(0.1, 3.0))
@settings(max_examples=100)
def test_interpolation_has_the_sizes_of_pytorch(data, spatial, scale):
    shape = (2, 3, *data.draw(numbers(spatial, 1, 7)))
    x = torch.empty(shape, device="meta")
    agree(
        "interpolate",
        lambda: F.interpolate(x, scale_factor=scale),
        {"input": TensorType(shape), "scale_factor": scale},
    )


def test_both_sides_of_every_limit_were_seen():
    """The limits that the random tests rely on, one accepted and one refused call each."""
    x = torch.empty(1, 2, 5)
    pairs = [
        (
            "max_pool1d",
            {"kernel_size": (2,), "padding": (1,)},
            {"kernel_size": (2,), "padding": (2,)},
        ),
        (
            "max_pool1d",
            {"kernel_size": (3,), "dilation": (2,)},
            {"kernel_size": (3,), "dilation": (3,)},
        ),
        ("avg_pool1d", {"kernel_size": (5,)}, {"kernel_size": (6,)}),
    ]
    for name, good, bad in pairs:
        for attributes, accepted in ((good, True), (bad, False)):
            attributes = {"stride": (1,), **attributes}
            call = getattr(F, name)
            bound = {"input": TensorType((1, 2, 5)), **attributes}
            assert agree(name, lambda: call(x, **attributes), bound) is accepted  # noqa: B023


def test_a_number_spreads_over_all_dimensions():
    assert spread(3, 2) == (3, 3)
    assert spread([3], 3) == (3, 3, 3)
    assert spread([1, 2], 2) == (1, 2)
    assert spread("same", 2) == "same"
    assert spread(None, 2) is None


def test_canonical_spelling_is_full_and_idempotent():
    canonical = operators()["max_pool2d"].canonical
    once = canonical("", {"input": 0, "kernel_size": 3, "padding": [1]})
    assert once == {"input": 0, "kernel_size": (3, 3), "padding": (1, 1), "stride": (3, 3)}
    assert canonical("", once) == once
    assert operators()["mse_loss"].canonical("", {"reduction": 2}) == {"reduction": "sum"}
    assert operators()["conv1d"].canonical("", {"padding": "valid"}) == {"padding": (0,)}
    bilinear = operators()["interpolate"].canonical("aten._upsample_bilinear2d_aa.vec", {})
    assert bilinear == {"mode": "bilinear", "antialias": True}
