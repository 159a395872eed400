"""`results/summary.json` and the README's tables, from the benchmark records in `results/`.

A records file holds one run record, then one `benchmark_case` record a problem. Cases of one suite,
level, policy, mode and precision are one row; a later line replaces an earlier case, a later file
all samples of its task.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from kernelwright.core import record
from kernelwright.core.commits import distinct, named, with_commits
from kernelwright.core.delivered import (
    BETTER,
    COMPILE,
    EAGER,
    TIMED,
    delivers_kernels,
    may_win,
    over,
    timing_of,
)
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.suites import CaseLine, SuiteRunLine
from kernelwright.core.scores import Mean, geometric_mean
from kernelwright.report.suite.scores import beats, pass_at_ks
from kernelwright.report.synthetic.scores import diversity, is_malformed
from kernelwright.synth.benchmark import V1, V2

KEY = ("suite", "level", "policy", "mode", "precision")
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
ANSWERS_BEGIN, ANSWERS_END = "<!-- answers:begin -->", "<!-- answers:end -->"
"""Around the README's tables: suites with a search, and answers of a policy without search."""
Key = tuple[str, ...]
SLOWER_BELOW = 0.97
"""A delivered ratio over torch.compile below this counts as slower; nearer to 1 it may be noise."""
_MEANS = tuple(f"geomean_over_{name}_delivered" for name in ("better", "compile", "eager"))
_COUNTS = ("beats_compile_significant", "beats_eager_significant", "correct", "delivered")
"""Metrics that are columns of the README's table."""


class Figure(TypedDict):
    """A published figure."""

    value: float
    of: int
    """The number of tasks that the figure is out of."""
    ci: list[float] | None
    """The ends of the 95% interval; None for plain counts."""
    task: NotRequired[int]
    """The task with this value, where the figure is an extreme."""


@dataclass(frozen=True, slots=True)
class RowCases:
    """All cases of one row of the table."""

    cases: tuple[CaseLine, ...]
    """All samples; the first one stands for its task where nothing else is said."""
    files: tuple[str, ...]
    """Records files they come from."""
    commits: tuple[str, ...]
    """The commits at which the cases were measured; "" where a record does not say."""
    device: str


@dataclass(slots=True)
class _SummaryTask:
    """The cases of one task in the last file that has any."""

    file: str
    samples: dict[int, CaseLine] = field(default_factory=dict)
    commits: dict[int, str] = field(default_factory=dict)


def write_summary(results: Path, readme: Path) -> dict[str, Any]:
    """Rebuild `summary.json` in `results` and the tables between the README's markers.

    Returns:
        The summary: "suite/level/policy/mode/precision/metric" -> value, of, ci, records, commits.

    Raises:
        UsageError: a case has no run record before it, or the README has no markers.
    """
    groups = read_groups(results)
    text = readme.read_text(encoding="utf-8")
    answers = {key: group for key, group in groups.items() if key[0] in (V1, V2)}
    suites = {key: group for key, group in groups.items() if key not in answers}
    text = _filled(text, BEGIN, END, table(suites), readme)
    text = _filled(text, ANSWERS_BEGIN, ANSWERS_END, answers_table(answers), readme)
    summary = summarize(groups)
    (results / "summary.json").write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n")
    readme.write_text(text, encoding="utf-8")
    return summary


def _filled(text: str, begin: str, end: str, block: str, readme: Path) -> str:
    """The page with a new block between two markers.

    Raises:
        UsageError: the page does not have each marker once.
    """
    if text.count(begin) != 1 or text.count(end) != 1:
        raise UsageError(f"needs one {begin} and one {end}", file=str(readme))
    filled = f"{begin}\n{block}\n{end}"
    return re.sub(f"{begin}.*{end}", lambda _: filled, text, flags=re.DOTALL)


def read_groups(results: Path) -> dict[Key, RowCases]:
    """Benchmark cases in every JSONL file of a folder, by row, rows sorted. Folders in it hold what
    is no published figure."""
    tasks: dict[Key, dict[Any, _SummaryTask]] = {}
    runs: dict[Key, SuiteRunLine] = {}
    for path in sorted(results.glob("*.jsonl")):
        file = str(path.relative_to(results))
        run: SuiteRunLine | None = None
        for item, commit in with_commits(record.read(path)):
            run = record.as_kind(item, SuiteRunLine) or run
            case = record.as_kind(item, CaseLine)
            if case is None:
                continue
            if run is None:
                raise UsageError("a case before any run record", file=str(path))
            key = tuple(str(item[name]) for name in KEY)
            task = tasks.setdefault(key, {}).get(item["id"])
            if task is None or task.file != file:
                task = tasks[key][item["id"]] = _SummaryTask(file)
            task.samples[case.get("sample", 0)] = case
            task.commits[case.get("sample", 0)] = commit
            runs[key] = run
    return {
        key: RowCases(
            cases=tuple(case for task in tasks_of_group.values() for case in task.samples.values()),
            files=tuple(sorted({task.file for task in tasks_of_group.values()})),
            commits=tuple(
                distinct(x for task in tasks_of_group.values() for x in task.commits.values())
            ),
            device=str(runs[key]["environment"]["gpu"]).split(",")[0],
        )
        for key, tasks_of_group in sorted(tasks.items(), key=lambda item: _by_numbers(item[0]))
    }


def _by_numbers(key: Key) -> list[list[tuple[int, str]]]:
    """To sort by: L5 before L20."""
    pieces = (re.findall(r"\d+|\D+", name) for name in key)
    return [[(int(p), "") if p.isdigit() else (-1, p) for p in piece] for piece in pieces]


def summarize(groups: dict[Key, RowCases]) -> dict[str, Any]:
    """Every published figure under its flat key."""
    return {
        "/".join((*key, metric)): {
            **figure,
            "records": list(group.files),
            "commits": list(group.commits),
        }
        for key, group in groups.items()
        for metric, figure in metrics(group.cases).items()
    }


def metrics(cases: Sequence[CaseLine]) -> dict[str, Figure]:
    """Metric -> its figure.

    Everything is over the first sample of each task, but for what is said of several.
    A case is delivered when the user gets kernels of ours (`core.delivered`). Metrics whose names
    end in "delivered" are over all tasks that were timed, by the time of what the user gets;
    "better" is the faster of eager and torch.compile.
    A case beats a rival when its median is lower; `_significant` asks that the 95% interval of the
    speed-up excludes 1, in older records that the two intervals of the medians do not overlap.
    Geometric means without that ending are over the correct cases that were timed. A rival that was
    never timed has no figures.
    """
    sampled = _of_samples(cases)
    cases = [case for case in cases if not case.get("sample", 0)]
    num = len(cases)
    correct = [case for case in cases if case["correct"]]
    figures: dict[str, Figure] = {
        "correct": _count(len(correct), num),
        "correct_with_triton": _count(sum(bool(c["has_triton"]) for c in correct), num),
    }
    if any(case.get("eager") for case in cases):
        figures["delivered"] = _count(sum(map(delivers_kernels, cases)), num)
    for rival, name in (("eager", EAGER), ("compile", COMPILE)):
        if any(case.get(name) for case in cases):
            figures |= _against(cases, rival, name) | _as_delivered(cases, rival, name)
    if any(case.get(COMPILE) for case in cases):
        figures |= _as_delivered(cases, "better", BETTER) | _slowest(cases)
    return figures | sampled


def _against(cases: Sequence[CaseLine], rival: str, name: str) -> dict[str, Figure]:
    """How many correct cases beat a rival, and their geometric mean."""
    timed = [c for c in cases if c["correct"] and c.get(name) and c.get("optimized")]
    ours = [case for case in timed if may_win(case)]
    wins = sum(_median_ms(c, TIMED) < _median_ms(c, name) for c in ours)
    significant = sum(beats(case, name) for case in ours)
    figures = {
        f"beats_{rival}": _count(wins, len(cases)),
        f"beats_{rival}_significant": _count(significant, len(cases)),
    }
    return figures | ({f"geomean_over_{rival}": _geomean(timed, name)} if timed else {})


def _as_delivered(cases: Sequence[CaseLine], rival: str, name: str) -> dict[str, Figure]:
    """The geometric mean over a rival of what users get; nothing where no case has both times."""
    ratios = [ratio.value for case in cases if (ratio := over(case, name))]
    if not ratios:
        return {}
    mean = geometric_mean(ratios, "delivered", name)
    return {f"geomean_over_{rival}_delivered": _mean(mean)}


def _slowest(cases: Sequence[CaseLine]) -> dict[str, Figure]:
    """The smallest delivered ratio over torch.compile, with its task, and how many are slower."""
    ratios = [(ratio, case["id"]) for case in cases if (ratio := over(case, COMPILE))]
    if not ratios:
        return {}
    worst, task = min(ratios, key=lambda pair: pair[0].value)
    ends = [_short(end) for end in worst.interval] if worst.interval else None
    num_slower = sum(ratio.value < SLOWER_BELOW for ratio, _ in ratios)
    return {
        "worst_over_compile": {
            "value": _short(worst.value),
            "of": len(ratios),
            "ci": ends,
            "task": task,
        },
        "slower_than_compile": _count(num_slower, len(ratios)),
    }


def _of_samples(cases: Sequence[CaseLine]) -> dict[str, Figure]:
    """pass@k where tasks have several samples; of answers of a policy, how many hold no candidate
    and how much those of one program differ."""
    num = len({case["id"] for case in cases})
    figures = {f"pass_at_{k}": _count(_short(x), num) for k, x in pass_at_ks(cases).items()}
    answers = [case for case in cases if "malformed" in case]
    if answers:
        figures["malformed"] = _count(sum(map(is_malformed, answers)), len(answers))
    if (differ := diversity(answers)) is not None:
        figures["distinct_schedules"] = _count(_short(differ.schedules), differ.programs)
        if differ.spread:
            figures["spread"] = _mean(differ.spread)
    return figures


def _count(value: float, of: int) -> Figure:
    return {"value": value, "of": of, "ci": None}


def _median_ms(case: CaseLine, name: str) -> float:
    """The median time of a contender that was timed."""
    timing = timing_of(case, name)
    assert timing
    return timing["median_ms"]


def _geomean(cases: Sequence[CaseLine], rival: str) -> Figure:
    """Geometric mean speedup, with the 95% bootstrap interval over cases."""
    ratios = [_median_ms(case, rival) / _median_ms(case, TIMED) for case in cases]
    return _mean(geometric_mean(ratios, "geomean", rival))


def _mean(mean: Mean) -> Figure:
    return {
        "value": _short(mean.value),
        "of": mean.num,
        "ci": [_short(mean.low), _short(mean.high)],
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def table(groups: dict[Key, RowCases]) -> str:
    """The Markdown table of suites with a search."""
    if not groups:
        return "No benchmark records yet."
    lines = [
        "| suite | policy, mode, precision | over the better of both | over torch.compile"
        " | over eager | slower than torch.compile | faster than torch.compile"
        " | faster than eager | correct | delivered | GPU | commit |",
        f"| --- | --- |{' ---: |' * 8} --- | --- |",
    ]
    for (suite, level, policy, mode, precision), group in groups.items():
        figures = metrics(group.cases)
        num = figures["correct"]["of"]
        cells = [
            f"{suite} {level}",
            f"{policy}, {mode}, {precision}",
            *(_cell(figures.get(name), partial(_ratio, num=num)) for name in _MEANS),
            _slower(figures),
            *(_cell(figures.get(name), _out_of) for name in _COUNTS),
            group.device,
            named(group.commits),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def answers_table(groups: dict[Key, RowCases]) -> str:
    """The Markdown table of answers to drawn programs without search. A level has two columns."""
    if not groups:
        return "No answers judged yet."
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    commits: dict[tuple[str, ...], list[str]] = {}
    for (suite, level, policy, mode, precision), group in groups.items():
        figures = metrics(group.cases)
        faster = _cell(figures.get("beats_eager_significant"), _out_of)
        row: tuple[str, ...] = (suite, f"{policy}, {mode}, {precision}")
        rows.setdefault(row, {})[level] = f"{_out_of(figures['correct'])} | {faster}"
        commits.setdefault(row, []).extend(group.commits)
    levels = list(dict.fromkeys(key[1] for key in groups))
    lines = [
        "| suite | policy, mode, precision"
        f" | {' | '.join(f'correct at {x} | faster at {x}' for x in levels)} | commit |",
        f"| --- | --- |{' ---: |' * 2 * len(levels)} --- |",
    ]
    for row, cells in rows.items():
        shown = (*row, *(cells.get(level, "not measured | not measured") for level in levels))
        lines.append(f"| {' | '.join(shown)} | {named(commits[row])} |")
    return "\n".join(lines)


def _cell(figure: Figure | None, text: Callable[[Figure], str]) -> str:
    return "not measured" if figure is None else text(figure)


def _out_of(figure: Figure) -> str:
    return f"{figure['value']} / {figure['of']}"


def _ratio(figure: Figure, num: int) -> str:
    """A mean with its interval; with its number of tasks where that is not `num`, which is all."""
    assert figure["ci"] is not None, "means have intervals"
    low, high = figure["ci"]
    tasks = "" if figure["of"] == num else f", n = {figure['of']}"
    return f"{figure['value']:.2f}x ({low:.2f} to {high:.2f}){tasks}"


def _slower(figures: dict[str, Figure]) -> str:
    """How many tasks are slower than torch.compile as delivered, and the slowest of all."""
    if "worst_over_compile" not in figures:
        return "not measured"
    worst = figures["worst_over_compile"]
    counted = _out_of(figures["slower_than_compile"])
    return f"{counted}, at worst {worst['value']:.2f}x (task {worst['task']})"
