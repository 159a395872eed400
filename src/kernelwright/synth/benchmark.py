"""synthetic-v1: a frozen set of programs to compare kernel writers on, which no training run draws.

synthetic-v1.toml says how it was drawn, synthetic-v1.jsonl holds it, as `kernelwright synth
benchmark` wrote it.
"""

import json
import tomllib
from importlib.resources import files

from kernelwright.core.record import Record
from kernelwright.synth.draws import Group
from kernelwright.synth.recipe import Recipe
from kernelwright.synth.run import Plan

NAME = "synthetic-v1"
MOST_ATTEMPTS = 200
"""For each program of one operator; those whose programs are no tasks, like `zeros_like`, are left
out, and the file says so."""


def benchmark_plan() -> Plan:
    """How the set is drawn: some programs of each level, some of each operator."""
    said = tomllib.loads(_text("toml"))
    recipe = Recipe.of(said["recipe"])
    levels = [
        Group(name=f"level {level}", level=level, num=said["each_level"])
        for level in said["levels"]
    ]
    singles = [
        Group(
            name=name,
            level=1,
            num=said["each_operator"],
            operator=name,
            most_attempts=MOST_ATTEMPTS,
            may_lack=True,
        )
        for name in recipe.operators
    ]
    return Plan(recipe=recipe, seed=said["seed"], groups=(*levels, *singles))


def synthetic_v1() -> list[Record]:
    """The records of its programs; `drawn.group` is "level 5", or an operator's name."""
    lines = map(json.loads, _text("jsonl").splitlines())
    return [line for line in lines if line["record"] == "program"]


def benchmark_fingerprints() -> frozenset[str]:
    return frozenset(line["fingerprint"] for line in synthetic_v1())


def _text(suffix: str) -> str:
    return files("kernelwright.synth").joinpath(f"{NAME}.{suffix}").read_text()
