"""Frozen sets of programs for the comparison of kernel writers. No training uses these programs.

NAME.toml says how the set of that name was drawn. NAME.jsonl holds the set, as `kernelwright synth
benchmark` wrote the file.

- synthetic-v1: 173 operators, one result, the numbers of the space of programs.
- synthetic-v2: all operators of November 2026, numbers of any kind, several results; run and linted
  at its own sizes too.
"""

import json
import tomllib
from collections.abc import Iterable
from importlib.resources import files

from kernelwright.core.record import Record
from kernelwright.synth.draws import LevelGroup
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.run import FilePlan

V1, V2 = "synthetic-v1", "synthetic-v2"
SETS = (V1, V2)
MOST_ATTEMPTS = 200
"""The most attempts for a program of a single operator. Operators whose programs are no tasks,
`zeros_like` for example, are left out, and the file says so."""


def benchmark_plan(name: str = V1) -> FilePlan:
    """The plan of a frozen set: some programs of each level, and some of each operator alone.

    A set holds no program of an earlier set.

    Args:
        name: an entry of `SETS`.
    """
    said = tomllib.loads(_text(name, "toml"))
    recipe = DrawRecipe.of(said["recipe"])
    levels = [
        LevelGroup(name=f"level {level}", level=level, num=said["each_level"])
        for level in said["levels"]
    ]
    singles = [
        LevelGroup(
            name=name,
            level=1,
            num=said["each_operator"],
            operator=name,
            most_attempts=MOST_ATTEMPTS,
            may_lack=True,
        )
        for name in recipe.operators
    ]
    earlier = benchmark_fingerprints(SETS[: SETS.index(name)])
    return FilePlan(recipe=recipe, seed=said["seed"], groups=(*levels, *singles), avoid=earlier)


def benchmark_programs(name: str = V1) -> list[Record]:
    """The records of a set's programs; `drawn.group` is "level 5", or an operator's name."""
    lines = map(json.loads, _text(name, "jsonl").splitlines())
    return [line for line in lines if line["record"] == "program"]


def benchmark_fingerprints(names: Iterable[str] = SETS) -> frozenset[str]:
    """The fingerprints of all programs of some sets."""
    return frozenset(line["fingerprint"] for name in names for line in benchmark_programs(name))


def _text(name: str, suffix: str) -> str:
    return files("kernelwright.synth").joinpath(f"{name}.{suffix}").read_text()
