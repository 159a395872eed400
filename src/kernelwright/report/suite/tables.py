"""Tables of a KernelBench run: rows of text from its scores."""

from collections.abc import Sequence

from kernelwright.core.commits import named
from kernelwright.core.delivered import COMPILED, delivered_timing, form_of
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.scores import Mean
from kernelwright.report import words
from kernelwright.report.format import Rows, factor, milliseconds
from kernelwright.report.suite.scores import BASELINES, PUBLISHED, THRESHOLDS, Scores

MOST_ABOVE_FLOOR = 20


def counts(scores: Sequence[Scores], *, published: bool) -> Rows:
    """A heading, then for each level how many tasks are correct, how many beat each baseline, and
    the commits of the cases.

    Args:
        published: DRTriton's figures too, which are over all tasks.
    """
    names = {score.baseline for level in scores for score in level.against}
    baselines = [name for name in BASELINES if name in names]
    head = (
        "level",
        "tasks",
        "correct",
        "kept",
        *(f"beats {BASELINES[name]}" for name in baselines),
    )
    rows: Rows = [(*head, *["published, %"] * published, "commit")]
    for level in scores:
        beaten = {score.baseline: str(score.beats) for score in level.against}
        cells = [beaten.get(name, "not timed") for name in baselines]
        theirs = [" / ".join(map(str, PUBLISHED.get(level.level, ())))] if published else []
        numbers = map(str, (level.tasks, level.correct, level.kept))
        rows.append((level.level, *numbers, *cells, *theirs, named(level.commits)))
    return rows


def means(scores: Sequence[Scores]) -> Rows:
    """Geometric means as delivered, with and without algebra and graphs, and over correct tasks."""
    heads = ("as delivered", "correct tasks", "without algebra", "without graphs")
    rows: Rows = [("level", "over", *heads, "unchanged")]
    for level in scores:
        for score in level.against:
            label = BASELINES[score.baseline]
            cells = map(
                _mean, (score.delivered, score.correct, score.without_algebra, score.launched)
            )
            rows.append((level.level, label, *cells, _unchanged(level)))
    return rows


def _unchanged(level: Scores) -> str:
    """How many tasks have no kernel of ours, and for how many of them torch.compile is best."""
    num = sum(map(len, level.unchanged.values()))
    num_compiled = len(level.unchanged[COMPILED])
    return f"{num} (torch.compile {num_compiled})" if num_compiled else str(num)


def _mean(mean: Mean) -> str:
    return f"{factor(mean.value)} ({mean.low:.2f} to {mean.high:.2f}), n = {mean.num}"


def fast(scores: Sequence[Scores]) -> Rows:
    """fast_p by level and baseline."""
    rows: Rows = [("level", "against", *(f"p = {p:g}" for p in THRESHOLDS))]
    for level in scores:
        for score in level.against:
            label = BASELINES[score.baseline]
            rows.append((level.level, label, *(f"{share:.2f}" for share in score.fast)))
    return rows


def spent(scores: Sequence[Scores]) -> Rows:
    """The time spent, the part of rewrites, the distance from the hardware's limit, pass@k."""
    has_samples = any(level.pass_at for level in scores)
    heads = ("level", "seconds", "candidates", "won with algebra", "won with other rewrites")
    rows: Rows = [(*heads, "won as a graph", "of the roofline", *["pass@k"] * has_samples)]
    for level in scores:
        tried = ", ".join(f"k = {k}: {share:.3f}" for k, share in level.pass_at.items())
        roofline = f"{level.roofline.value:.2f}, n = {level.roofline.num}" if level.roofline else ""
        algebra = _with_names(level.by_algebra, level.algebra)
        others = _with_names(level.by_rewrites, level.rewrites)
        numbers = (f"{level.seconds:.0f}", str(level.candidates))
        graphs = f"{level.graphs} ({level.graphs_needed} not otherwise)" if level.graphs else "0"
        samples = [tried] * has_samples
        rows.append((level.level, *numbers, algebra, others, graphs, roofline, *samples))
    return rows


def _with_names(count: int, names: dict[str, int]) -> str:
    named = ", ".join(f"{name.replace('_', ' ')} {times}" for name, times in sorted(names.items()))
    return f"{count} ({named})" if named else str(count)


def above_floor(cases: Sequence[CaseLine]) -> Rows:
    """The tasks furthest above the least time that their bytes and FLOPs allow."""
    excesses = [
        (used["median_ms"] / case["floor_ms"], used["median_ms"], case)
        for case in cases
        if case.get("floor_ms") and (used := delivered_timing(case))
    ]
    excesses.sort(key=lambda row: -row[0])
    return [
        (
            f"{case['level']}/{case['name']}",
            words.computed_by(form_of(case)),
            milliseconds(used_ms),
            milliseconds(case["floor_ms"]),
            factor(above),
        )
        for above, used_ms, case in excesses[:MOST_ABOVE_FLOOR]
    ]
