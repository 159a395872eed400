"""The data card of a data set, in Markdown, from the data set's summary.

Its YAML head says which file is which split, as loaders of data sets expect it.
"""

from collections.abc import Iterable, Mapping

from kernelwright.core.record import Record
from kernelwright.data.pairs.pair import TRAIN, VALIDATION
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.ops.forms.registry import EXCLUDED
from kernelwright.ops.registry import operators

MOST_ROWS = 40
_HEAD = """\
---
configs:
- config_name: default
  data_files:
  - split: train
    path: train.jsonl
  - split: validation
    path: validation.jsonl
---
"""


def card(recipe: PairsRecipe, summary: Record) -> str:
    """The data card as text.

    Args:
        summary: as `assemble` returns it.
    """
    parts = [
        _HEAD,
        f"# {recipe.title or 'Pairs of PyTorch programs and Triton kernels'}\n",
        _overview(recipe, summary),
        _counts("Pairs by level", "level", summary["level"]),
        _counts("By difficulty", "difficulty", summary["difficulty"]),
        _counts("By source", "source", summary["source"]),
        _counts("Origin of the programs", "origin", summary["origin"]),
        _counts("Licences", "licence", summary["licence"]),
        _counts("Verdicts", "verdict", summary["verdict"]),
        _counts("Rejected by the judge (negatives.jsonl)", "reason", summary["rejected"]),
        _lengths(summary),
        _parts(summary["parts"]),
        _coverage(summary["operators"]),
        _counts("How kernels loop", "loop", summary["loops"]),
        _counts("Operators, by pairs that have them", "operator", summary["operators"]),
    ]
    return "\n".join(part for part in parts if part)


def _overview(recipe: PairsRecipe, summary: Record) -> str:
    split = summary["split"]
    judged = f"{summary['judged']:,} pairs were judged by kernelwright's judge"
    if recipe.verify.share < 1:
        judged += (
            f": of the teacher's a share of {recipe.verify.share:g} drawn by chance, the others of "
            "which are unverified, and all that other sources wrote"
        )
    return (
        f"{summary['pairs']:,} pairs of {summary['programs']:,} programs: {split.get(TRAIN, 0):,} "
        f"to train on, {split.get(VALIDATION, 0):,} held back (a program is on one side with all "
        f"its answers). {summary['different_codes']:,} answers differ in their code. {judged}.\n\n"
        "Left out are the programs of our frozen sets, and those of two calls or more that are a "
        "task of these sets, of KernelBench or of TritonBench at other sizes.\n\n"
        f"Seed {recipe.seed}; `build.json` holds the recipe and the versions; kernelwright's "
        "docs/data.md says what the columns are.\n"
    )


def _lengths(summary: Record) -> str:
    names = ("least", "median", "p90", "p99", "most", "total")
    return _table(
        "Characters of answers",
        ("level", *names, "median request"),
        (
            (level, *(quantiles[name] for name in names), requests["median"])
            for (level, quantiles), requests in zip(
                summary["characters"].items(), summary["request_characters"].values(), strict=True
            )
        ),
    )


def _parts(tallies: Mapping[str, Record]) -> str:
    rows: list[tuple[object, ...]] = []
    for name, tally in tallies.items():
        dropped = sorted(tally["dropped"].items(), key=lambda item: -item[1])
        why = ", ".join(f"{number:,} {reason}" for reason, number in dropped)
        rows.append((name, tally["programs"], tally["answers"], why or "nothing"))
    return _table("Parts, and what was dropped", ("part", "programs", "answers", "dropped"), rows)


def _coverage(counts: Mapping[str, int]) -> str:
    drawable = [name for name in operators() if name not in EXCLUDED]
    missing = [name for name in drawable if name not in counts]
    text = f"{len(drawable) - len(missing)} of {len(drawable)} operators occur"
    if missing:
        text += f"; missing: {', '.join(missing)}"
    return f"## Coverage\n\n{text}.\n"


def _counts(title: str, what: str, counts: Mapping[object, int]) -> str:
    if not counts:
        return ""
    total = sum(counts.values())
    rows = [(name, number, f"{number / total:.1%}") for name, number in counts.items()]
    more = f"\n{len(rows) - MOST_ROWS} more in summary.json.\n" if len(rows) > MOST_ROWS else ""
    return _table(title, (what, "number", "share"), rows[:MOST_ROWS]) + more


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [f"## {title}", "", _row(head), "|" + " --- |" * len(head)]
    lines += [_row(tuple(map(_cell, row))) for row in rows]
    return "\n".join([*lines, ""])


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")
