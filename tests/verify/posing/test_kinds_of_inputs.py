"""Cases that are made of inputs do not leave what the reference means."""

import pytest
import torch

from kernelwright.core.verdict import Contract, Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.alike import swapped
from kernelwright.verify.tasks.task import CPU, FunctionTask
from kernelwright.verify.tasks.variation import variations

LABELS = torch.tensor([1.0, -1.0, -1.0, 1.0])
FLOATS = torch.tensor([0.3, -0.7, 1.9, -2.0])


def test_inputs_of_one_kind_are_exchanged():
    assert swapped([FLOATS, FLOATS + 0.1, LABELS])[0].equal(FLOATS + 0.1)
    assert swapped([LABELS, FLOATS, -LABELS])[0].equal(-LABELS)
    assert swapped([FLOATS.abs(), FLOATS, 0.1 - FLOATS])[1].equal(0.1 - FLOATS)


@pytest.mark.parametrize(
    "other",
    [LABELS, FLOATS.abs(), torch.tensor([0.1, 0.2, 0.9, 0.3])],
    ids=["labels", "positive", "probabilities"],
)
def test_inputs_of_different_kinds_stay(other):
    assert swapped([FLOATS, other]) is None
    assert swapped([other, FLOATS]) is None


def test_positions_in_different_ranges_stay():
    assert swapped([torch.tensor([0, 1, 2]), torch.tensor([0, 6, 2])]) is None


@pytest.mark.parametrize("is_method", [False, True])
def test_positions_that_wrap_round_are_for_the_contract_drop_in(is_method):
    def picked(x, at):
        return [x.take_along_dim(at, dim=1) if is_method else torch.take_along_dim(x, at, 1)]

    task = FunctionTask(
        name="picked",
        get_inputs=lambda: [torch.randn(5, 6), torch.randint(0, 6, (5, 3))],
        function=picked,
    )

    def names(contract):
        rules = Rules(CPU, Precision.STRICT, "pure", contract)
        return {variant.name for variant in variations(task, rules, 0)}

    assert "-1 in input 1" in names(Contract.DROP_IN)
    assert "0 in input 1" in names(Contract.FIXED)
    assert not {"-1 in input 1", "-100 in input 1"} & names(Contract.FIXED)
