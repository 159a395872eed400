"""The page of drawn programs: their contents as tables and charts, in one file without network."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.report.format import count
from kernelwright.report.programs.census import Census, Octave, by_key
from kernelwright.report.programs.charts import BarChart, PairMap, bar_chart, pair_map
from kernelwright.report.programs.coverage import RecipeSpace
from kernelwright.report.rendering import asset, template

MOST_NAMED = 1000
"""The most missing things that are named; more would make the page heavy."""


@dataclass(frozen=True, slots=True)
class Fact:
    what: str
    figure: str
    of: str
    note: str = ""


def write_page(census: Census, space: RecipeSpace | None, title: str, path: Path) -> None:
    path.write_text(page(census, space, title), encoding="utf-8")


def page(census: Census, space: RecipeSpace | None, title: str) -> str:
    """The page as HTML text.

    Args:
        space: the space of the files' recipes; None: coverage is left out.
    """
    return template("programs.html").render(
        title=title,
        groups=sorted(census.groups.items()),
        facts=_facts(census),
        coverage=[] if space is None else space.coverage(census),
        most_named=MOST_NAMED,
        operators=bar_chart("Operators", census.operators.most_common()),
        charts=_charts(census),
        map=_pairs(census, space),
        refused=refused_rows(census),
        style=asset("style.css"),
    )


def refused_rows(census: Census) -> list[tuple[str, int, float]]:
    """(reason, attempts, percent of all attempts), most first."""
    return [(why, n, 100 * n / census.attempts) for why, n in census.refused.most_common()]


def _facts(census: Census) -> list[Fact]:
    facts = [
        Fact("Programs", count(census.programs), "", _given_up(census)),
        Fact("Calls", count(census.operators.total()), f"of {len(census.operators)} operators"),
    ]
    if census.attempts:
        good = census.programs / census.attempts
        facts.append(Fact("Attempts that gave a program", f"{good:.1%}", f"of {census.attempts:,}"))
        uniform = census.programs - census.not_uniform
        note = f"{_share(census.accepted, census.proposals)} of proposed sizes accepted"
        facts.append(Fact("Drawn uniformly", count(uniform), f"of {census.programs:,}", note))
    return facts


def _given_up(census: Census) -> str:
    missing = ", ".join(f"{name} ({n})" for name, n in sorted(census.given_up.items()))
    return f"not found: {missing}" if missing else ""


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def histograms(census: Census) -> list[tuple[str, list[tuple[str, int]]]]:
    """The histograms of a census: (title, [(label, count)]), sorted by the labels' values."""
    return [
        ("Ranks of values", _numbered(census.ranks)),
        ("Dtypes of values", census.dtypes.most_common()),
        ("Sizes of axes, from", octaves(census.sizes)),
        ("Elements of values, from", octaves(census.elements)),
        ("FLOPs of programs, from", octaves(census.flops)),
        ("Bytes that one kernel moves, from", octaves(census.bytes)),
        ("FLOPs a byte, from", octaves(census.intensity)),
        ("Depth: calls on the longest path", _numbered(census.depth)),
        ("Width: most values waiting to be read", _numbered(census.width)),
    ]


def _charts(census: Census) -> list[BarChart]:
    return [bar_chart(title, counts) for title, counts in histograms(census) if counts]


def _numbered(counts: Counter[int]) -> list[tuple[str, int]]:
    return [(str(key), counts[key]) for key in sorted(counts)]


def octaves(counts: Counter[Octave]) -> list[tuple[str, int]]:
    """(label, count) of each octave, labelled by its lower end. Empty octaves in between are there
    too."""
    known = [key for key, _ in sorted(counts.items(), key=by_key) if key is not None]
    zero = [("0", counts[None])] if counts[None] else []
    between = range(known[0], known[-1] + 1) if known else range(0)
    return zero + [(_power(key), counts[key]) for key in between]


def _power(exponent: int) -> str:
    """2^exponent as sizes are spoken of: 4096 is 4K."""
    if exponent < 0:
        return f"1/{1 << -exponent}"
    thousands = min(exponent // 10, 5)
    return f"{1 << (exponent - 10 * thousands)}{('', 'K', 'M', 'G', 'T', 'P')[thousands]}"


def _pairs(census: Census, space: RecipeSpace | None) -> PairMap:
    """The map of producer and consumer. Operators are sorted by family if the space is known."""
    families: dict[str, Any] = {} if space is None else space.families
    seen = {name for pair in census.pairs for name in pair}
    names: Sequence[str] = [*families, *sorted(seen - families.keys())]
    return pair_map(names, census.pairs, None if space is None else space.pairs)
