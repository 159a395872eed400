"""Values made of numbers alone, and what is read at positions that a program computes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.programs.algebra import elsewhere
from kernelwright.programs.build import Builder
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.resize import resize
from kernelwright.programs.resizing.variants import scaled_down, shape_variants
from kernelwright.programs.text import parse, statement, to_text


class Of(nn.Module):
    """A module whose forward is a function of one tensor."""

    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> object:
        return self._function(x)


PLACES = torch.tensor([0, 2, 1])


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = x[:, 1] * 2
    y[:, 2:5] = 1
    y[1] = x[0]
    return y


FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "arange": lambda x: x + torch.arange(8),
    "arange with start": lambda x: x + torch.arange(3, 11),
    "arange with step": lambda x: x * torch.arange(0.0, 2.0, 0.25),
    "arange backwards": lambda x: x * torch.arange(8, 0, -1, dtype=torch.float16),
    "zeros": lambda x: torch.cat([x, torch.zeros(4, 2)], 1),
    "ones": lambda x: torch.cat([x, torch.ones(4, 2)], 1),
    "full": lambda x: torch.where(x > 0, x, torch.full((), float("-inf"))),
    "full of bool": lambda x: torch.where(torch.full((4, 8), True), x, 0.0),
    "new_zeros": lambda x: torch.cat([x, x.new_zeros(4, 1)], 1),
    "new_ones": lambda x: torch.cat([x, x.new_ones(4, 1, dtype=torch.float32)], 1),
    "new_full": lambda x: torch.cat([x, x.new_full((4, 1), 3.0)], 1),
    "zeros_like": lambda x: x + torch.zeros_like(x),
    "scalar_tensor": lambda x: x * torch.scalar_tensor(2.5),
    "linspace": lambda x: x * torch.linspace(0, 1, 8),
    "empty": lambda x: torch.empty(4, 8).copy_(x) + 1,
    "index": lambda x: x[PLACES].relu(),
    "index with a gap": lambda x: x[:, PLACES].relu(),
    "two indices": lambda x: x[PLACES[:, None], PLACES].relu(),
    "indices around a gap": lambda x: x[:, :, None][PLACES, :, PLACES * 0],
    "negative index": lambda x: x[:, PLACES - 3],
    "assigned": assigned,
    "sort": lambda x: torch.sort(x, dim=0, descending=True)[0],
    "stable sort": lambda x: torch.sort(x, stable=True)[1],
    "topk": lambda x: tuple(torch.topk(x, 3)),
    "remainder": lambda x: torch.remainder(x, 0.75) + x % x.exp(),
    "scatter": lambda x: x.scatter(1, torch.topk(x, 2)[1], 0.5),
    "scatter of a tensor": lambda x: x.scatter(1, torch.topk(x, 8)[1], x),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[1:3], 0, 1, 3),
    "unsafe_split": lambda x: x.unsafe_split(2, 0)[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_creators_and_picks_lower_to_operators_that_say_the_same(name):
    module, x = Of(FUNCTIONS[name]), torch.randn(4, 8)
    lowered = lower(module, (x,))
    program = lowered.program
    assert [call.op for call in program.calls if call.is_extern] == []
    assert parse(to_text(program)) == program
    results = lowered.rebuild(run(program, lowered.gather(module, (x,))))
    torch.testing.assert_close(results, module(x))


@pytest.mark.parametrize("layer", [nn.GRUCell(8, 16), nn.utils.parametrizations.weight_norm(
    nn.Linear(8, 5))], ids=["GRUCell", "weight_norm"])  # fmt: skip
def test_what_decompositions_make_is_decomposed_too(layer):
    program = lower(layer, (torch.randn(3, 8),)).program
    assert [call.op for call in program.calls if call.is_extern] == []


def test_a_mask_of_booleans_as_an_index_is_a_clear_error():
    with pytest.raises(UsageError, match="depends on the values"):
        lower(Of(lambda x: x[x > 0]), (torch.randn(4, 8),))


def test_an_extern_call_with_a_gap_among_its_indices_is_typed():
    def put(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.index_put(x, (None, x[0] > 0), x[:1, :1]).relu()

    program = lower(Of(put), (torch.randn(4, 8),)).program
    assert "aten.index_put.default" in [call.op for call in program.calls]
    assert program.flops() > 0
    assert program.bytes_unfused() > 0
    assert parse(to_text(program)) == program
    for variant in shape_variants(program, 2, seed=0):
        run(variant, make_inputs(variant, 0))


def test_a_value_made_of_nothing_is_made_where_the_inputs_are():
    program = lower(Of(lambda x: x + torch.arange(8)), (torch.randn(4, 8),)).program
    made = next(call for call in program.calls if call.op == "arange")
    assert statement(made, "x0").endswith("dtype=torch.int64, device=x0.device)")
    (result,) = run(program, [torch.empty(4, 8, device="meta")])
    assert result.device.type == "meta"


# Other sizes


def positions(rows: int = 512) -> Program:
    """A table read at positions that the program makes."""
    builder = Builder()
    x, table = builder.input(TensorType((2, 16, 8))), builder.input(TensorType((rows, 8)))
    (places,) = builder.call("arange", start=0, end=16)
    (picked,) = builder.call("embedding", input=places, weight=table)
    (total,) = builder.call("add", input=x, other=picked)
    return builder.program(builder.call("relu", input=total))


def test_every_variant_reads_a_table_that_is_long_enough():
    for made in (*shape_variants(positions(), 8, seed=0), scaled_down(positions(), 256)):
        run(made, make_inputs(made, 0))


def test_a_table_and_the_positions_in_it_shrink_together():
    both = resize(positions(rows=16), lambda size: {16: 5}.get(size, size))
    assert [value.type.shape for value in both.inputs] == [(2, 5, 8), (5, 8)]
    assert both.calls[0].args == (("start", 0), ("end", 5))


def test_sizes_at_which_positions_leave_their_table_are_refused():
    with pytest.raises(ValueError, match="refuses the values"):
        resize(positions(), lambda size: {512: 8}.get(size, size))


def test_positions_that_no_attribute_may_change_keep_their_number():
    variants = shape_variants(positions(), 4, seed=0, fixed_attributes=True)
    assert variants
    assert {made.calls[0].args for made in variants} == {positions().calls[0].args}


def test_rewritings_are_not_compared_where_the_original_itself_is_refused(monkeypatch):
    broken = positions(rows=4)  # `arange(16)` leaves the table
    monkeypatch.setattr(elsewhere, "shape_variants", lambda *_, **__: [broken])
    assert elsewhere.Elsewhere(positions()).agrees(positions())
