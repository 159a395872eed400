"""Recipes: read from TOML, checked, recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.ops.registry import operators
from kernelwright.synth.recipe import DrawRecipe, SizeLimits


def test_a_file_says_what_the_recipe_holds(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'operators = ["matrix", "relu"]\nexclude = ["bmm"]\nwidth = 2\n'
        "[weights]\nmatrix = 3\nmm = 5\n"
        '[sizes]\nhigh = 64\nmeasure = "uniform"\n[menus.softmax]\ndim = [-1]\n'
    )
    recipe = DrawRecipe.load(path)
    assert recipe.width == 2
    assert recipe.sizes == SizeLimits(high=64, measure="uniform")
    assert recipe.space().domain(operators()["softmax"], "dim") == (-1,)
    assert [recipe.weight(op) for op in ("relu", "matmul", "mm", "bmm", "tanh")] == [1, 3, 5, 0, 0]


def test_the_record_of_a_recipe_makes_it_again() -> None:
    recipe = DrawRecipe(weights={"relu": 2}, menus={"conv2d": {"stride": ((1, 1), (2, 2))}})
    again = DrawRecipe.of(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe
    assert again.digest() == recipe.digest() != DrawRecipe().digest()


def test_the_operators_of_a_frozen_set_go_by_the_name_of_the_set() -> None:
    recipe = DrawRecipe.of({"operators": "synthetic-v1"})
    assert len(recipe.operators) == 173
    assert recipe.weight("softmax") == 1
    assert recipe.weight("scatter") == 0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"operators": "synthetic-v0"}, "no frozen set 'synthetic-v0'"),
        ({"operators": "balanced"}, "no frozen set 'balanced'"),
        ({"widht": 3}, "widht"),
        ({"sizes": {"hihg": 4}}, "'sizes.hihg'"),
        ({"sizes": {"high": "64"}}, "sizes.high = '64'"),
        ({"bounds": {"flops": [1]}}, "bounds.flops"),
        ({"dtypes": "float32"}, "dtypes = 'float32'"),
        ({"menus": {"softmax": {"dim": 1}}}, "menus.softmax.dim = 1"),
        ({"quality": {"lint": 1}}, "quality.lint = 1"),
        ({"operators": ["reluu"]}, "reluu"),
        ({"menus": {"nothing": {}}}, "menus.nothing"),
        ({"dtypes": ["int8"]}, "int8"),
        ({"dtypes": []}, "dtypes"),
        ({"weights": {"relu": 0.5}}, "weights.relu = 0.5"),
        ({"weights": {"relu": -1}}, "weights are 0 or more"),
        ({"max_rank": 9}, "max_rank"),
        ({"sizes": {"low": 8, "high": 4}}, "low <= high"),
    ],
)
def test_what_a_recipe_does_not_know_is_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        DrawRecipe.of(values)


def test_the_refusal_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("width = ")
    with pytest.raises(UsageError, match=r"r\.toml"):
        DrawRecipe.load(path)
