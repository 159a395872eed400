"""How a run ended: sentences and counts from its result record."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.delivered import COMPILE, COMPILED, EAGER, TIMED
from kernelwright.report import words
from kernelwright.report.format import factor, milliseconds
from kernelwright.report.roofline import ESTIMATED_ON, estimate_ms
from kernelwright.report.run import ReportedRun

CONTENDERS = {
    EAGER: "PyTorch",
    COMPILE: "torch.compile",
    "compiled_graphs": "torch.compile, CUDA graphs",
    TIMED: "optimized",
}
"""Labels of timed contenders, by their name in records."""
_SPEEDUPS = {EAGER: "over_eager", COMPILE: "over_compile"}
"""Names in the result record's "speedups"."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The figure at the top of a run's page."""

    text: str
    interval: str
    """The 95% interval of the figure; empty where there is none."""
    notes: tuple[str, ...]
    is_measured: bool
    title: str = "Result"
    """The meaning of the figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ended."""

    is_optimized: bool
    """False where optimized.py holds the original."""
    message: str
    fragments: str
    candidates: str
    reasons: tuple[tuple[str, str, int], ...]
    """Why candidates were wrong: words, a longer explanation, how many."""
    left_out: tuple[str, ...]
    kept_in_pytorch: tuple[str, ...]


def ending(run: ReportedRun) -> Ending:
    """How a run ended, by the "outcome" of its result record."""
    outcome = run.result["outcome"]
    tried, counts = outcome["candidates"], outcome["fragments"]
    parts = [(tried["right"], "right"), (tried["wrong"], "wrong"), (tried["cut_off"], "cut off")]
    return Ending(
        is_optimized=outcome["status"] == "optimized",
        message=words.message(outcome["message"]),
        fragments=f"{counts['tried']} of {counts['proposed']}" if counts["proposed"] else "none",
        candidates=", ".join(f"{number} {name}" for number, name in parts if number) or "none",
        reasons=tuple(
            (words.outcome(code), words.meaning(code), number)
            for code, number in sorted(tried["reasons"].items(), key=lambda pair: -pair[1])
        ),
        left_out=tuple(outcome["left_out"]),
        kept_in_pytorch=tuple(outcome["kept_in_pytorch"]),
    )


def headline(run: ReportedRun) -> Headline:
    """The one figure a reader looks for, or why there is none.

    Where torch.compile was timed, the figure is over the better of PyTorch and torch.compile.
    """
    end, times = ending(run), run.result["times"]
    if not end.is_optimized:
        return Headline("Unchanged", "", (end.message, *_beside_compile(run)), False)
    title = "Speed against PyTorch"
    if figure := better(run):
        name, ratio, ends = figure
        notes = (_taken(run, name), *_beside_compile(run), against(EAGER, *_over(run, EAGER)))
        title = "Speed against the better of PyTorch and torch.compile"
        return Headline(factor(ratio), _interval(ends), notes, True, title)
    if "eager" in times and "optimized" in times:
        ratio, *ends = _over(run, EAGER)
        notes = (_taken(run, EAGER), *_beside_compile(run))
        return Headline(factor(ratio), _interval(ends), notes, True, title)
    before_ms, after_ms = estimate_ms(run.program, run.fragments)
    notes = ("There is no GPU here, so nothing was timed.",)
    if after_ms > 0:
        gain = factor(before_ms / after_ms)
        notes += (f"Estimate for an {ESTIMATED_ON}, from memory traffic alone: {gain}.",)
    return Headline("Not measured", "", notes, False, title)


def better(run: ReportedRun) -> tuple[str, float, list[float]] | None:
    """The speed-up over the faster of PyTorch ("eager") and torch.compile ("compiled").

    Returns:
        The name of the faster rival by its median, the speed-up over it, and the interval: each end
        the smaller of both 95% intervals, or an empty list if one has none. None if one of the
        three was not timed.
    """
    times = run.result["times"]
    if not all(times.get(name) for name in (EAGER, COMPILE, TIMED)):
        return None
    ratios = {name: _over(run, name) for name in (COMPILE, EAGER)}
    name = min(ratios, key=lambda side: ratios[side][0])
    ends = [ratio[1:] for ratio in ratios.values()]
    return name, ratios[name][0], list(map(min, zip(*ends, strict=True))) if all(ends) else []


def lead(run: ReportedRun) -> str:
    """The headline's figure in one line; "" where torch.compile was not timed."""
    figure = better(run)
    if figure is None:
        return ""
    name, ratio, ends = figure
    interval = f" ({_interval(ends)})" if ends else ""
    faster = f"Of PyTorch and torch.compile, {CONTENDERS[name]} is faster here."
    return f"{factor(ratio)} over the better of PyTorch and torch.compile{interval}. {faster}"


def _taken(run: ReportedRun, baseline: str) -> str:
    before_ms, after_ms = (run.result["times"][name]["median_ms"] for name in (baseline, TIMED))
    taken = f"{milliseconds(before_ms)} to {milliseconds(after_ms)} a call"
    return f"{taken}, against {CONTENDERS[COMPILE]}" if baseline == COMPILE else taken


def _over(run: ReportedRun, baseline: str) -> list[float]:
    """[ratio, low, high] over a baseline; [ratio] alone, of medians, without an interval."""
    before_ms, after_ms = (run.result["times"][name]["median_ms"] for name in (baseline, TIMED))
    return list(_speedups(run).get(_SPEEDUPS[baseline], [before_ms / after_ms]))


def _interval(ends: Sequence[float]) -> str:
    return f"95%: {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""


def _speedups(run: ReportedRun) -> dict[str, list[float]]:
    """Name -> [ratio, low, high]. An older record has the speed-up of its verdict alone."""
    if "speedups" in run.result:
        return dict(run.result["speedups"])
    verdict = run.result["verdict"]
    speedup, interval = verdict.get("speedup"), verdict.get("speedup_interval")
    return {"over_eager": [speedup, *interval]} if speedup and interval else {}


def _beside_compile(run: ReportedRun) -> tuple[str, ...]:
    """A sentence about torch.compile, or why it was not timed; empty if the record has neither."""
    if over := _speedups(run).get("over_compile"):
        return (against(COMPILE, *over),)
    message = compile_note(run)
    return (message,) if message else ()


def compile_note(run: ReportedRun) -> str:
    """Why torch.compile has no time; empty where there is one, or no GPU."""
    return run.result["torch_compile"].get("message", "") if "torch_compile" in run.result else ""


def against(baseline: str, ratio: float, low: float | None = None, high: float = 0.0) -> str:
    """A sentence that says which of the two is faster, or that the interval contains 1.

    Args:
        baseline: "eager" or "compiled".
        low, high: ends of the 95% interval; `low` is None without one.
    """
    name = CONTENDERS[baseline]
    if low is None:
        return f"{factor(ratio)} over {name}"
    interval = f"({_interval((low, high))})"
    if low > 1.0:
        return f"{factor(ratio)} faster than {name} {interval}"
    if high < 1.0:
        return f"Slower than {name}: {factor(ratio)} of its speed {interval}"
    return f"No clear difference from {name}: {factor(ratio)} {interval}"


def badges(run: ReportedRun) -> Sequence[tuple[str, str]]:
    """(look, text) of the badges under the title."""
    verdict = run.result["verdict"]
    is_optimized = ending(run).is_optimized
    first = ("good", "\u2713 verified") if is_optimized else ("", "Unchanged")
    if run.result.get("form") == COMPILED:
        first = ("", "Unchanged: torch.compile is the best known")
    return [
        first,
        ("", f"mode: {verdict['mode']}"),
        ("", f"precision: {verdict['precision']}"),
        ("", words.device(verdict["device"])),
    ]
