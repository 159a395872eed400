"""`dynamic_shapes`, and which calls a module with sizes that vary serves."""

import pytest
import torch
import torch.utils._pytree as pytree
from torch.export import Dim

from kernelwright.core.errors import UsageError
from kernelwright.search.sizes.requested import (
    MOST_GROWTH,
    OPEN_RANGE,
    Range,
    requested,
    shapes_of,
)
from kernelwright.search.sizes.signature import Signature

BATCH = Dim("batch", max=256)


def forward(x, others=None, *, mask=None): ...


def asked(shapes, x=(4, 6), **kwargs):
    return requested(forward, ((torch.zeros(x),), kwargs), shapes)


def test_dimensions_with_one_name_have_one_size():
    sizes = asked({"x": {0: BATCH}, "mask": (BATCH, None)}, mask=torch.zeros(4, 1))
    assert [(place.leaf, place.dim, place.size) for place in sizes.places] == [
        (0, 0, "batch"),
        (1, 0, "batch"),
    ]
    assert sizes.ranges == {"batch": Range(1, 256)}
    assert sizes.example == {"batch": 4}


def test_shapes_may_be_nested_and_in_the_order_of_the_parameters():
    example = ((torch.zeros(2, 3), [torch.zeros(5), {"a": torch.zeros(7)}]), {})
    sizes = requested(forward, example, ({1: Dim.DYNAMIC}, [None, {"a": [Dim.AUTO]}]))
    assert sizes.example == {"x_1": 3, "others_0": 7}
    assert sizes.ranges["x_1"] == Range(1, 3 * OPEN_RANGE)


def test_a_size_may_be_a_multiple_of_another():
    half = Dim("half", min=2, max=9)
    sizes = asked({"x": {0: half, 1: 2 * half}}, x=(3, 6))
    assert [(place.scale, place.shift) for place in sizes.places] == [(1, 0), (2, 0)]
    assert sizes.resized(((torch.zeros(3, 6),), {}), {"half": 5})[0][0].shape == (5, 10)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"y": {0: BATCH}}, "names 'y'"),
        ({"x": {2: BATCH}}, "dimension 2 of x, which has 2"),
        ({"x": {0: Dim("batch", min=8)}}, "is 4 in the example inputs, outside of its range 8"),
        ({"x": {0: BATCH, 1: BATCH}}, "is 4 and 6 in the example"),
        ({"x": {0: None}}, "names no dimension"),
        ({"x": {1: 4 * Dim("quarter")}}, "is 6, which is not"),
        (({}, {}, {}, {}), "has 4 items"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, words):
    with pytest.raises(UsageError, match=words):
        asked(shapes)


def test_points_are_in_range_and_have_both_ends():
    points = asked({"x": {0: BATCH}}).points()
    assert points[0] == {"batch": 4}
    assert {1, 2, 256} <= {point["batch"] for point in points}
    assert all(1 <= point["batch"] <= 256 for point in points)
    assert points[-1] == {"batch": 1}


def test_two_large_sizes_are_not_tried_together():
    sizes = asked({"x": {0: Dim("a", max=400), 1: Dim("b", max=600)}})
    points = sizes.points()
    assert {"a": 400, "b": 6} in points
    assert {"a": 4, "b": 600} in points
    grown = [p["a"] * p["b"] / 24 for p in points if 400 not in p.values()]
    assert max(grown[:-3]) <= 600 / 6 * MOST_GROWTH


def test_rows_of_several_draws_are_all_fresh():
    sizes = asked({"x": {0: BATCH}})
    (grown,), _ = sizes.grown(lambda: ((torch.randn(4, 6),), {}), {"batch": 11})
    assert grown.shape == (11, 6)
    assert len({tuple(row) for row in grown.tolist()}) == 11
    (cut,), _ = sizes.grown(lambda: ((torch.randn(4, 6),), {}), {"batch": 3})
    assert cut.shape == (3, 6)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_square_grows_in_both_dimensions_from_fresh_draws(size):
    shapes = {"x": {0: BATCH, 1: BATCH}, "mask": {1: BATCH}}
    sizes = asked(shapes, x=(3, 3), mask=torch.zeros(2, 3))

    def draw():
        return (torch.randn(3, 3),), {"mask": torch.randn(2, 3)}

    (x,), kwargs = sizes.grown(draw, {"batch": size})
    assert (x.shape, kwargs["mask"].shape) == ((size, size), (2, size))
    assert len(set(x.flatten().tolist())) == size * size


def test_values_of_one_draw_stay_together():
    """The first rows of all inputs come from the same draw."""
    draws = iter(range(100))

    def draw():
        number = float(next(draws))
        return (torch.full((3, 3), number),), {"mask": torch.full((3, 1), number)}

    sizes = asked({"x": {0: BATCH, 1: BATCH}, "mask": {0: BATCH}}, x=(3, 3), mask=torch.zeros(3, 1))
    (x,), kwargs = sizes.grown(draw, {"batch": 7})
    assert x[0, 0] == kwargs["mask"][0, 0] == 0


def test_a_signature_accepts_sizes_in_range_that_agree():
    example = ((torch.zeros(4, 6),), {"mask": torch.zeros(4, 1)})
    sizes = requested(forward, example, {"x": {0: BATCH}, "mask": {0: BATCH}})
    signature = Signature.of(example, sizes)

    def accepts(x, mask, dtype=torch.float32):
        call = ((torch.zeros(x, dtype=dtype),), {"mask": torch.zeros(mask)})
        return signature.accepts(*pytree.tree_flatten(call))

    assert accepts((4, 6), (4, 1))
    assert accepts((256, 6), (256, 1))
    assert accepts((1, 6), (1, 1))
    assert not accepts((257, 6), (257, 1))
    assert not accepts((5, 6), (4, 1))
    assert not accepts((4, 7), (4, 1))
    assert not accepts((4, 6), (4, 1), torch.float64)
    assert not accepts((4, 6, 1), (4, 1))
    assert not signature.accepts(*pytree.tree_flatten(((torch.zeros(4, 6),), {"mask": None})))
    assert str(signature) == "batch 1 to 256"


def test_the_command_line_names_inputs_dimensions_and_ranges():
    shapes = shapes_of(["x:0=batch:1-256", "mask:0=batch:1-256", "x:1"])
    assert {name: sorted(dims) for name, dims in shapes.items()} == {"x": [0, 1], "mask": [0]}
    assert (shapes["x"][0].__name__, shapes["x"][0].max) == ("batch", 256)
    assert shapes["x"][1].__name__ == "x_1"


@pytest.mark.parametrize("text", ["x", "x:a", "x:0=1", "x:0:5", "x:0:5-5", "x:0=n:9-2", ":0"])
def test_a_wrong_size_on_the_command_line_is_refused(text):
    with pytest.raises(UsageError, match="--dynamic"):
        shapes_of([text])
