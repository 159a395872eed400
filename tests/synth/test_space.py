"""What a recipe allows, as headers say it."""

import json

from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.space import space_record

RECIPE = DrawRecipe(
    operators=("relu", "sum", "linear"),
    dtypes=("float32",),
    max_rank=2,
    menus={"sum": {"keepdim": (True,)}, "linear": {}},
)


def kinds(space, what, op):
    return {space["kinds"][i] for i in space[what][op]}


def test_operators_and_the_kinds_they_make_and_read():
    space = space_record(RECIPE)
    assert space["operators"] == {"relu": "pointwise", "sum": "reduction", "linear": "matrix"}
    assert {"float32/1", "float32/2"} <= kinds(space, "reads", "relu")
    assert kinds(space, "makes", "relu") == kinds(space, "reads", "relu")
    assert "float32/0" not in kinds(space, "reads", "linear")
    assert all(name.startswith("float32/") for name in kinds(space, "makes", "linear"))


def test_attributes_have_the_values_of_the_recipe_and_what_calls_leave_out():
    attributes = space_record(RECIPE)["attributes"]
    assert attributes["sum"] == {"keepdim": {"values": (True,), "default": False}}
    assert attributes["relu"] == {}


def test_the_whole_space_is_json_of_moderate_size():
    text = json.dumps(space_record(DrawRecipe(max_rank=2)), allow_nan=False)
    assert len(text) < 60_000
