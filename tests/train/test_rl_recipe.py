"""Recipes of reinforcement learning: those that are shipped, and what is refused."""

from pathlib import Path

import pytest
from rl_runs import make_recipe

from kernelwright.core.errors import UsageError
from kernelwright.policy.embedded import folder_of, load_model
from kernelwright.train.rl.recipe import Loss, RlRecipe

SHIPPED = sorted((Path(__file__).parents[2] / "recipes" / "rl").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_read(path):
    recipe = RlRecipe.load(path)
    assert recipe.budget.steps or recipe.budget.epochs
    assert recipe.micro_tokens >= recipe.rollouts.max_tokens


def test_there_are_shipped_recipes():
    names = {path.stem for path in SHIPPED}
    assert names == {"smoke", "embedded", "pool", "qwen-0.5b", "qwen-1.5b", "qwen-7b"}


def test_a_recipe_may_begin_with_the_model_that_ships():
    recipe = RlRecipe.load(SHIPPED[0].with_stem("embedded"))
    model, tokenizer = load_model(folder_of(recipe.model.path), "cpu")
    assert model.config.vocab_size >= len(tokenizer)
    assert folder_of("runs/embedded/best") == Path("runs/embedded/best")


def test_a_table_that_says_little_keeps_the_defaults_of_this_kind_of_training():
    recipe = make_recipe("model", "programs", optimizer={"learning_rate": 1e-4})
    assert (recipe.optimizer.warmup_steps, recipe.optimizer.weight_decay) == (0, 0.0)
    assert recipe.optimizer.decay == "constant"


@pytest.mark.parametrize("loss", Loss)
def test_every_loss_has_a_reward_that_goes_with_it(loss):
    reward = {"hrd": "hierarchical", "drpo": "log_speed"}.get(loss, "partial_credit")
    objective = {"loss": loss.value, "reward": reward}
    assert make_recipe("model", "programs", objective=objective).objective.loss is loss


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"budget": {"steps": None, "epochs": 1.0}}, "steps, minutes"),
        ({"budget": {"steps": 0}}, "steps, minutes"),
        ({"programs": {"files": []}}, "programs.files"),
        ({"rollouts": {"group": 1}}, "rollouts.group"),
        ({"rollouts": {"ahead": 2}}, "rollouts.ahead"),
        ({"rollouts": {"turns": 0}}, "rollouts.turns"),
        ({"rollouts": {"temperature": 0.0}}, "rollouts.temperature"),
        ({"rollouts": {"policy": "teacher"}}, "rollouts.policy"),
        ({"validation": {"share": 1.5}}, "validation.share"),
        ({"objective": {"contrasts_right": True}}, "contrasts_right"),
        ({"objective": {"kl": -1.0}}, "objective.kl"),
        ({"objective": {"correct_share": 1.5}}, "objective.correct_share"),
        ({"objective": {"power": 0.0}}, "objective.power"),
        ({"objective": {"loss": "drpo", "reward": "modelled"}}, "judging.timing"),
        ({"rollouts": {"turns": 2, "retries": 1}}, "rollouts.retries"),
        ({"rollouts": {"discount": 2.0}}, "rollouts.discount"),
        ({"rollouts": {"policy": "pool:p", "turns": 2}}, "turns = 2"),
        ({"rollouts": {"policy": "pool:p", "ahead": 1}}, "ahead = 1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(changes, told):
    with pytest.raises(UsageError, match=told):
        make_recipe("model", "programs", **changes)


@pytest.mark.parametrize("loss", [loss for loss in Loss if loss not in (Loss.DRPO, Loss.HRD)])
@pytest.mark.parametrize("reward", ["log_speed", "modelled"])
def test_a_slow_correct_answer_never_earns_less_than_a_wrong_one(loss, reward):
    with pytest.raises(UsageError, match="earn less than a wrong one"):
        make_recipe(
            "model",
            "programs",
            objective={"loss": loss.value, "reward": reward},
            judging={"timing": False},
        )
