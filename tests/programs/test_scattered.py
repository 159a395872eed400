"""Additions and writes at indices are operators: their inputs are drawn within bounds."""

import torch

from kernelwright.programs import reference
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.parsing import parse
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.programs.text import to_text


class Scattered(torch.nn.Module):
    def forward(self, x, rows, values, places):
        written = x.clone()
        written[:, rows] = values[:, :3]
        added = torch.zeros_like(x).index_add_(1, places[0], values, alpha=2)
        summed = x.index_put((rows, rows), values[0, :3], accumulate=True)
        return (
            x.scatter_add(0, places, values),
            x.index_add(0, rows, values[:3]),
            written,
            added,
            summed,
        )


def given() -> list[torch.Tensor]:
    rows, places = torch.tensor([0, 4, 2]), torch.randint(0, 5, (5, 6))
    return [torch.randn(5, 6), rows, torch.randn(5, 6), places]


def test_additions_at_indices_are_operators_and_compute_the_same():
    inputs = given()
    made = lower(Scattered(), tuple(inputs))
    assert [call.op for call in made.program.calls if call.is_extern] == []
    outputs = reference.run(made.program, made.gather(Scattered(), tuple(inputs)))
    for output, wanted in zip(made.rebuild(outputs), Scattered()(*inputs), strict=True):
        torch.testing.assert_close(output, wanted)


def test_drawn_indices_stay_within_their_dimension():
    program = lower(Scattered(), tuple(given())).program
    bounds = [v.init.high for v in program.inputs if v.type.dtype == "int64"]
    assert sorted(bounds) == [5, 5]


def test_their_text_reads_back_and_they_run_at_other_sizes():
    program = lower(Scattered(), tuple(given())).program
    assert parse(to_text(program)) == program
    for variant in shape_variants(program, 2, seed=0):
        reference.run(variant, reference.make_inputs(variant, 0))


def test_a_mask_as_index_stays_with_pytorch():
    class Masked(torch.nn.Module):
        def forward(self, x):
            return x.index_put((x > 0,), torch.tensor(1.0))

    program = lower(Masked(), (torch.randn(5, 6),)).program
    assert "index_put" not in [call.op for call in program.calls]
