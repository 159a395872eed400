import json
from pathlib import Path

import pytest
from pairs_data import recipe

from kernelwright.core.errors import UsageError
from kernelwright.data.pairs.recipe import PairsRecipe

SHIPPED = sorted((Path(__file__).parents[3] / "recipes" / "data").glob("*.toml"))
DRAWN = {"name": "one", "level": 2, "programs": 10}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_recipes_that_are_shipped_are_understood(path):
    made = PairsRecipe.load(path)
    assert made.title
    assert all(part.file or made.drawn_by(part) for part in made.part)
    assert any(part.level for part in made.part)


def test_it_travels_as_json_and_comes_back():
    made = recipe(
        DRAWN | {"draw": "small", "answers": 3},
        {"name": "two", "file": "programs.jsonl", "levels": [1, 2]},
        draw={"small": {"weights": "balanced", "sizes": {"high": 64}}},
        verify={"share": 0.5},
    )
    assert PairsRecipe.of(json.loads(json.dumps(made.to_json()))) == made


def test_files_lie_beside_the_recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('avoid = ["more.json"]\n[[part]]\nname = "a"\nfile = "programs.jsonl"\n')
    made = PairsRecipe.load(path)
    assert made.part[0].file == str(tmp_path / "programs.jsonl")
    assert made.avoid == (str(tmp_path / "more.json"),)


@pytest.mark.parametrize(
    ("part", "fields", "said"),
    [
        (DRAWN | {"anwsers": 3}, {}, "no setting 'part 1.anwsers'"),
        (DRAWN, {"validaton": 0.1}, "no setting 'validaton'"),
        (DRAWN, {"verify": {"shar": 1}}, "no setting 'verify.shar'"),
        (DRAWN | {"source": "oracle"}, {}, "no source 'oracle'"),
        (DRAWN | {"file": "x.jsonl"}, {}, "drawn or read"),
        ({"name": "one", "programs": 3}, {}, "drawn or read"),
        (DRAWN | {"draw": "gone"}, {}, "[draw.gone]"),
        (DRAWN | {"name": "a/b"}, {}, "names are of"),
        (DRAWN | {"answers": 0}, {}, "no answers are wanted"),
        (DRAWN | {"answers": -1}, {}, "at least 0"),
        (DRAWN, {"validation": 1.0}, "validation"),
        (DRAWN, {"draw": {"x": {"operators": ["no_such"]}}}, "no operator"),
        (DRAWN, {"draw": {"x": {"sizes": {"hihg": 2}}}}, "no setting 'draw.x.sizes.hihg'"),
        (DRAWN, {"draw": {"x": 3}}, "draw.x = 3"),
        (DRAWN, {"draw": 3}, "draw = 3"),
        (DRAWN | {"answers": "4"}, {}, "part 1.answers = '4'"),
        (DRAWN | {"share": True}, {}, "part 1.share = True"),
        (DRAWN | {"file": 3}, {}, "part 1.file = 3"),
        (DRAWN, {"avoid": "more.json"}, "avoid = 'more.json'"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(part, fields, said):
    with pytest.raises(UsageError) as refused:
        recipe(part, **fields)
    assert said in str(refused.value)


def test_parts_have_names_of_their_own():
    with pytest.raises(UsageError, match="name of its own"):
        recipe(DRAWN, DRAWN)
    with pytest.raises(UsageError, match="has parts"):
        recipe()


@pytest.mark.parametrize("level", [0, 1, 2, 5, 20, 500])
def test_shards_of_large_programs_are_smaller(level):
    where = {"level": level, "programs": 9} if level else {"file": "x.jsonl"}
    (part,) = recipe({"name": "a", **where}).part
    assert 1 <= part.programs_a_shard <= 160
    assert part.programs_a_shard * level <= max(320, level)
