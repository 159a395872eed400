"""Recipes: which programs are drawn, and how. A recipe is TOML, and is stored with its programs."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.core.errors import UsageError
from kernelwright.core.text import digest
from kernelwright.ops.forms.form import FormSpace
from kernelwright.ops.registry import FAMILIES, operators

Interval = tuple[int | float, int | float]
"""(low, high) as the recipe writes the numbers: the digest of a recipe distinguishes 1 and 1.0."""
_FLOATS = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeLimits:
    """Limits of single sizes and tensors."""

    low: int = 2
    """The least free size. A size of 1 occurs only where a call asks for it: an axis that
    broadcasts, or an axis that a reduction keeps."""
    high: int = 1 << 15
    measure: str = "log"
    """Weights of sizes: `uniform`, `log` (1 / size) or `models` (what models use, more often)."""
    elements: Interval = (1, 1 << 24)
    """The elements of each tensor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramBounds:
    """Limits of a whole program. Inclusive."""

    bytes: Interval = (1 << 14, 1 << 29)
    """The bytes of all tensors together: inputs, and results of all calls."""
    flops: Interval = (0, 1 << 37)
    intensity: Interval = (0, 1e6)
    """FLOPs for each byte that a single perfect kernel would move."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """The checks that refuse drawn programs (`synth.quality`)."""

    ranges: bool = True
    """Refuse by interval arithmetic: values outside of operators' domains, or values that blow
    up."""
    lint: bool = True
    """Refuse by a run of the program: by its values, and by findings of the task linter."""
    avoid_benchmarks: bool = True
    """Refuse programs of two or more calls that are tasks of KernelBench or TritonBench."""
    avoid: tuple[str, ...] = ()
    """Files of `kernelwright data fingerprints`: tasks of other suites that are refused too."""
    own_sizes: bool = False
    """Run and lint programs at their own sizes too, after the small sizes. This takes seconds to
    minutes for each program."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawRecipe:
    """A recipe as plain data. The same recipe and seed give the same programs.

    Raises:
        UsageError: a name is unknown, or a number is outside its limits.
    """

    operators: tuple[str, ...] = ()
    """Names of operators or families that may occur. Empty: all operators. "synthetic-v1" stands
    for the operators of this frozen set."""
    exclude: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    max_rank: int = 5
    width: int = 3
    """The most values that may wait to be read after any call."""
    broadcast: tuple[int, int] = (8, 1)
    """The weight of an axis that all operands have, and of an axis that is 1 in some operands."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Operator or family -> weight, 1 by default. The weight of an operator precedes the weight of
    its family. In place of the table, "balanced" stands for shipped weights that make operators
    equally frequent (synth/balance.py)."""
    menus: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    """Operator -> attribute -> values, in place of the values in the operator's record."""
    numbers: float = 0.0
    """The share of programs with numbers of any kind (`synth.loosened`), some in place of
    inputs."""
    outputs: float = 0.0
    """The share of programs that also return intermediate values (`synth.loosened`)."""
    sizes: SizeLimits = SizeLimits()
    bounds: ProgramBounds = ProgramBounds()
    quality: Quality = Quality()

    def __post_init__(self) -> None:
        named = {*self.operators, *self.exclude, *self.weights}
        if unknown := sorted(named - {*operators(), *FAMILIES}):
            _refuse(f"{unknown[0]!r} is no operator and no family", "see `kernelwright ops`")
        if unknown := sorted(self.menus.keys() - operators().keys()):
            _refuse(f"[menus.{unknown[0]}]: no such operator", "see `kernelwright ops`")
        if not self.dtypes or not set(self.dtypes) <= set(_FLOATS):
            _refuse(f"dtypes {list(self.dtypes)}", f"choose from {', '.join(_FLOATS)}")
        if any(weight < 0 for weight in self.weights.values()):
            _refuse("weights are 0 or more", "scale them up")
        if not (0 <= self.numbers <= 1 and 0 <= self.outputs <= 1):
            _refuse("numbers and outputs are shares, from 0 to 1", "see docs/csp-dag.md")
        if not (0 <= self.max_rank <= 5 and self.width >= 1):
            _refuse("max_rank is 0 to 5 and width at least 1", "")
        if not 1 <= self.sizes.low <= self.sizes.high:
            _refuse("sizes: 1 <= low <= high", "")

    def space(self) -> FormSpace:
        return FormSpace(
            max_rank=self.max_rank,
            floats=self.dtypes,
            menus=self.menus,
            broadcast=self.broadcast,
        )

    def weight(self, op: str) -> int:
        """The weight of an operator; 0 if the operator may not occur."""
        names = (op, operators()[op].family)
        if self.operators and not set(names) & set(self.operators):
            return 0
        if set(names) & set(self.exclude):
            return 0
        return next((self.weights[name] for name in names if name in self.weights), 1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def digest(self) -> str:
        """A digest of the resolved recipe, 16 hex digits."""
        return digest(json.dumps(self.to_json(), sort_keys=True))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a recipe from a TOML file.

        Raises:
            UsageError: the file cannot be read, or has an unknown field or a wrong value.
        """
        return strict.load(path, cls.of)

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Reads a recipe from plain data, as a TOML or JSON parser returns it.

        Args:
            where: the name of the data's place in a file, for messages of errors.

        Raises:
            UsageError: a field is unknown, or a value has the wrong type.
        """
        if isinstance(values, Mapping) and isinstance(values.get("weights"), str):
            values = {**values, "weights": _shipped_weights(values["weights"])}
        if isinstance(values, Mapping) and isinstance(values.get("operators"), str):
            values = {**values, "operators": _operators_of_set(values["operators"])}
        return strict.read(cls, values, where)


def _shipped_weights(name: str) -> Any:
    if name != "balanced":
        _refuse(f"no weights {name!r}", 'give "balanced" or a table of operators')
    text = files("kernelwright.synth").joinpath("balanced.toml").read_text()
    return tomllib.loads(text)["weights"]


def _operators_of_set(name: str) -> Any:
    file = files("kernelwright.synth").joinpath(f"{name}.toml")
    said = tomllib.loads(file.read_text()) if file.is_file() else {}
    if "recipe" not in said:
        _refuse(f"no frozen set {name!r}", 'give "synthetic-v1", or a list of operators')
    return said["recipe"]["operators"]


def _refuse(message: str, remedy: str) -> Any:
    raise UsageError(message, remedy=remedy)
