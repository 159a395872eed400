"""Who judges where, on one machine."""

import pytest

from kernelwright.verify.many import pools
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe


@pytest.mark.parametrize(
    ("cards", "num_training", "clocks"),
    [
        (["a"], 0, ["a"]),
        (["a", "b"], 0, ["a", "b"]),
        (["a", "b", "c"], 1, ["b", "c"]),
        (["a", "b"], 2, ["a", "b"]),
        (["a"], 1, ["a"]),
    ],
)
def test_a_card_that_trains_has_no_clock_owner_where_there_are_others(
    monkeypatch, cards, num_training, clocks
):
    made = {}

    class Executor:
        def __init__(self, factory, num_workers, gpus=()):
            made[factory.target] = num_workers, list(gpus)

    monkeypatch.setattr(pools, "LocalExecutor", Executor)
    monkeypatch.setattr(pools, "gpus", lambda: cards)
    recipe = JudgeRecipe(device="cuda", seed=5, timing=True, grade="recycled")
    found = local_pools(recipe, 4, num_training=num_training)
    assert found.is_clock_apart == (clocks != cards)
    assert made[pools.CLOCKS] == (len(clocks), clocks)
    assert made[pools.JUDGES] == (4, cards)
