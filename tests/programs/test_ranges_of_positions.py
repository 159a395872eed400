"""Which programs read within their tables on random inputs."""

import pytest
import torch
import torch.nn.functional as F
from functions_as_modules import lowered

from kernelwright.programs.draws import positions
from kernelwright.programs.draws.positions import stay_in_range

TABLE = torch.randn(32, 4)
FLOATS = torch.randn(40, 50)
WHOLE = torch.randint(0, 32, (40,))

WITHIN = {
    "an input": (lambda i, t: F.embedding(i, t), WHOLE, TABLE),
    "a view of an input": (lambda i, t: F.embedding(i.reshape(8, 5)[1:], t), WHOLE, TABLE),
    "constants": (lambda t: F.embedding(torch.arange(32).flip(0), t), TABLE),
    "clamped": (lambda x, t: F.embedding((x * 8).long().clamp(0, 31), t), FLOATS, TABLE),
    "places of largest values": (lambda x, t: t[x[:, :32].argmax(-1)], FLOATS, TABLE),
    "columns of one tensor": (
        lambda i, t, u: F.embedding(i[:, 0], t) + F.embedding(i[:, 1], u),
        torch.randint(0, 4, (9, 2)),
        TABLE,
        TABLE[:4],
    ),
    "a float that only passes by": (
        lambda i, x, t: F.embedding(i, t) + (x[:, :4] * 100).long(),
        WHOLE,
        FLOATS,
        TABLE,
    ),
}
BEYOND = {
    "numbers that are no probabilities": (
        lambda x, m, y: F.binary_cross_entropy(x * m, y),
        FLOATS,
        FLOATS,
        torch.rand(40, 50),
    ),
    "in range but for large inputs": (
        lambda x, t: F.embedding((x + 16).long(), t),
        FLOATS,
        TABLE,
    ),
    "floats": (lambda x, t: F.embedding((x.abs() * 31).long(), t), FLOATS, TABLE),
    "logarithms of random numbers": (
        lambda x, t: F.embedding((x.log() * 3).long().clamp(max=31), t),
        FLOATS,
        TABLE,
    ),
    "a sum of positions": (lambda i, j, t: F.embedding(i + j, t), WHOLE, WHOLE, TABLE),
    "an index without a record": (
        lambda x, y: y[:, (x[0] * 9).abs().long()],
        FLOATS,
        torch.randn(3, 4, 2),
    ),
    "gather": (lambda x, y: torch.gather(y, 1, (x * 20).long()), FLOATS, FLOATS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHIN)
def test_positions_that_random_inputs_keep_in_range(name):
    assert stay_in_range(lowered(*WITHIN[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", BEYOND)
def test_positions_that_random_inputs_move_out_of_range(name):
    assert not stay_in_range(lowered(*BEYOND[name]))


def test_inputs_that_decide_no_position_are_not_drawn(monkeypatch):
    drawn = []
    original = positions.make_input
    monkeypatch.setattr(
        positions,
        "make_input",
        lambda value, *draw, **how: drawn.append(value) or original(value, *draw, **how),
    )
    function, *given = WITHIN["clamped"]
    stay_in_range(lowered(lambda x, t, y: function(x, t) + y, *given, torch.randn(4)))
    assert {value.type.shape for value in drawn} == {(40, 50)}


def test_a_computation_that_is_too_large_for_the_cpu_is_not_tried(monkeypatch):
    monkeypatch.setattr(positions, "MAX_ELEMENTS", 100)
    assert not stay_in_range(lowered(*WITHIN["clamped"]))
    assert stay_in_range(lowered(*WITHIN["an input"])), "nothing is computed"
