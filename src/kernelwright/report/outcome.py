"""What a run ended with: the sentences and counts of its result record, ready to print."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.record import Record
from kernelwright.report import words
from kernelwright.report.format import factor, milliseconds
from kernelwright.report.roofline import ESTIMATED_ON, estimate_ms
from kernelwright.report.run import Run


@dataclass(frozen=True, slots=True)
class Headline:
    text: str
    interval: str
    """The 95% interval of the figure; empty where there is none."""
    notes: tuple[str, ...]
    is_measured: bool


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


def ending(run: Run) -> Ending:
    """How a run ended, by its "outcome"; by its candidates where an older record has none."""
    outcome = run.result.get("outcome") or _counted(run)
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


def _counted(run: Run) -> Record:
    """An outcome for a record that has none."""
    verdicts = [candidate["verdict"] for candidate in run.candidates]
    reasons = Counter(v["code"] for v in verdicts if not v["accepted"])
    right = sum(v["accepted"] for v in verdicts)
    is_optimized = bool(run.result["num_triton"]) and run.result["verdict"]["accepted"]
    message = run.result["verdict"]["message"].capitalize() + "."
    if not is_optimized:
        counted = f"Of {len(verdicts)} candidates {right} were right and {reasons.total()} wrong."
        message = f"No kernel was kept. {counted if verdicts else 'No candidate was judged.'}"
    return {
        "status": "optimized" if is_optimized else "unchanged",
        "message": message,
        "fragments": {"proposed": len(run.fragments), "tried": len(run.fragments)},
        "candidates": {
            "right": right,
            "wrong": reasons.total(),
            "cut_off": 0,
            "reasons": dict(reasons),
        },
        "left_out": [],
        "kept_in_pytorch": run.result["unknown_operators"],
    }


def headline(run: Run) -> Headline:
    """The one figure a reader looks for, or why there is none."""
    end, times = ending(run), run.result["times"]
    if not end.is_optimized:
        return Headline("Unchanged", "", (end.message, *_beside_compile(run)), False)
    if "eager" in times and "optimized" in times:
        before_ms, after_ms = (times[name]["median_ms"] for name in ("eager", "optimized"))
        ratio, *ends = _speedups(run).get("over_eager", [before_ms / after_ms])
        interval = f"95%: {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
        taken = f"{milliseconds(before_ms)} to {milliseconds(after_ms)} a call"
        return Headline(factor(ratio), interval, (taken, *_beside_compile(run)), True)
    before_ms, after_ms = estimate_ms(run.program, run.fragments)
    notes: tuple[str, ...] = ("There is no GPU here, so nothing was timed.",)
    if after_ms > 0:
        gain = factor(before_ms / after_ms)
        notes += (f"Estimate for an {ESTIMATED_ON}, from memory traffic alone: {gain}.",)
    return Headline("Not measured", "", notes, False)


def _speedups(run: Run) -> Record:
    """[ratio, low, high] by name; an older record has that of its verdict."""
    if "speedups" in run.result:
        return dict(run.result["speedups"])
    verdict = run.result["verdict"]
    if not (verdict.get("speedup") and verdict.get("speedup_interval")):
        return {}
    return {"over_eager": [verdict["speedup"], *verdict["speedup_interval"]]}


def _beside_compile(run: Run) -> tuple[str, ...]:
    """A sentence on torch.compile, or why it was not timed."""
    if over := _speedups(run).get("over_compile"):
        return (against_compile(*over),)
    message = run.result.get("torch_compile", {}).get("message", "")
    return (message,) if message else ()


def compile_note(run: Run) -> str:
    """Why torch.compile has no time; empty where there is one, or no GPU."""
    return str(run.result.get("torch_compile", {}).get("message", ""))


def against_compile(ratio: float, low: float, high: float) -> str:
    """Says plainly which of the two is faster, or that the interval does not tell."""
    interval = f"(95%: {low:.2f} to {high:.2f})"
    if low > 1.0:
        return f"{factor(ratio)} faster than torch.compile {interval}"
    if high < 1.0:
        return f"Slower than torch.compile: {factor(ratio)} of its speed {interval}"
    return f"No clear difference from torch.compile: {factor(ratio)} {interval}"


def badges(run: Run) -> Sequence[tuple[str, str]]:
    """(look, text) of the badges under the title."""
    verdict = run.result["verdict"]
    is_optimized = ending(run).is_optimized
    first = ("good", "\u2713 verified") if is_optimized else ("", "Unchanged")
    return [
        first,
        ("", f"mode: {verdict['mode']}"),
        ("", f"precision: {verdict['precision']}"),
        ("", words.device(verdict["device"])),
    ]
