"""Recipes: what they refuse, and how tokens become rows and steps."""

from pathlib import Path

import pytest
from sft_runs import make_recipe

from kernelwright.core.errors import UsageError
from kernelwright.train.recipe import SupervisedRecipe, changed

SHIPPED = sorted((Path(__file__).parents[2] / "recipes" / "sft").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_read(path):
    recipe = SupervisedRecipe.load(path)
    processes = 8 if "multi" in path.stem else 1
    rows, passes = recipe.rows(processes)
    tokens = rows * passes * processes * recipe.data.max_tokens
    assert tokens == recipe.batch.step_tokens


def test_settings_may_be_changed_when_a_recipe_is_read():
    path = next(path for path in SHIPPED if path.stem == "smoke")
    recipe, other = (
        SupervisedRecipe.load(path),
        SupervisedRecipe.load(path, ["data.plans=false", "budget.steps=7"]),
    )
    assert changed(recipe.to_json(), other.to_json()) == ["budget.steps", "data.plans"]
    with pytest.raises(UsageError, match=r"smoke\.toml.*data\.plan'"):
        SupervisedRecipe.load(path, ["data.plan=false"])


def test_there_are_shipped_recipes():
    assert {path.stem for path in SHIPPED} >= {"smoke", "embedded", "lora-7b", "multi-gpu"}


@pytest.mark.parametrize(
    "budget", [{"steps": None}, {"tokens": 5}, {"steps": 0}, {"steps": None, "minutes": -1.0}]
)
def test_a_budget_is_one_positive_number(budget):
    with pytest.raises(UsageError, match="budget"):
        make_recipe("x", budget=budget)


@pytest.mark.parametrize(
    ("table", "setting", "value"),
    [
        ("data", "validation_pairs", 0),
        ("data", "levels", {"2": -0.5}),
        ("data", "sources", {"teacher": -1.0}),
        ("optimizer", "warmup_steps", -1),
    ],
)
def test_numbers_that_mean_nothing_are_refused(table, setting, value):
    with pytest.raises(UsageError, match=f"{table}.{setting}"):
        make_recipe("x", **{table: {setting: value}})


def test_a_row_has_to_fit_into_a_forward_pass():
    with pytest.raises(UsageError, match="no row"):
        make_recipe("x", batch={"micro_tokens": 100})


def test_plans_alone_want_plans():
    with pytest.raises(UsageError, match="nothing is left to learn"):
        make_recipe("x", data={"plans": False, "plans_alone": ["teacher"]})


def test_attention_by_lengths_is_for_pairs_side_by_side():
    with pytest.raises(UsageError, match="varlen"):
        make_recipe("x", model={"attention": "varlen"}, data={"packing": "plain"})


@pytest.mark.parametrize(("processes", "rows_and_passes"), [(1, (2, 2)), (2, (2, 1))])
def test_processes_share_a_step(processes, rows_and_passes):
    recipe = make_recipe("x", batch={"step_tokens": 1024, "micro_tokens": 512})
    assert recipe.rows(processes) == rows_and_passes


def test_a_step_is_a_whole_number_of_passes():
    with pytest.raises(UsageError, match="no multiple"):
        make_recipe("x", batch={"step_tokens": 1024, "micro_tokens": 512}).rows(3)


def test_changes_are_named_by_their_place():
    before = make_recipe("x").to_json()
    after = make_recipe("x", model={"lora": {"rank": 3}}, data={"max_tokens": 128}).to_json()
    assert changed(before, after) == ["data.max_tokens", "model.lora"]
    assert changed(before, before) == []
