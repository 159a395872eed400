"""The result of `optimize` in one sentence: the last line on the console."""

from kernelwright.core.record import Record
from kernelwright.report.format import count, quantity
from kernelwright.report.run import Run

Speedup = tuple[float, float, float]
"""Ratio of times, and the ends of its 95% interval."""


def is_unchanged(result: Record) -> bool:
    """The search kept the original program."""
    outcome = result.get("outcome")
    return outcome["status"] == "unchanged" if outcome else not result["num_triton"]


def closing(run: Run) -> str:
    """What a user has won, and by what right it is claimed.

    Records from before outcomes were written are read too.
    """
    result = run.result
    if is_unchanged(result):
        outcome = result.get("outcome")
        return outcome["message"] if outcome else "Unchanged: keep the original."
    verdict = result["verdict"]
    if not verdict["accepted"]:
        return f"Rejected, do not use optimized.py: {verdict['message']}"
    speedups = _speedups(result)
    gain = _measured(speedups) if speedups else _estimated(result)
    interrupted = (result.get("outcome") or {}).get("cause") == "interrupted"
    start = "Interrupted; the best result so far was kept. " if interrupted else ""
    return f"{start}{gain}, {_correct(verdict)}, {_covered(run)}."


def _speedups(result: Record) -> dict[str, Speedup]:
    """Measured ratios by what they compare with; empty where nothing was timed."""
    if result.get("measured") is False:
        return {}
    if result.get("speedups"):
        return {name: tuple(found) for name, found in result["speedups"].items() if found}
    verdict = result["verdict"]
    ratio, interval = verdict.get("speedup"), verdict.get("speedup_interval")
    return {"over_eager": (ratio, *interval)} if ratio and interval else {}


def _measured(speedups: dict[str, Speedup]) -> str:
    names = {"over_eager": "PyTorch", "over_compile": "torch.compile"}
    compared = [compared_with(names[key], speedups[key]) for key in names if key in speedups]
    return " and ".join(compared)


def compared_with(name: str, speedup: Speedup) -> str:
    """A measured ratio in words: faster or slower only where the interval excludes 1."""
    ratio, low, high = speedup
    if low > 1.0:
        return f"{ratio:.2f}x faster than {name} (95%: {low:.2f} to {high:.2f})"
    if high < 1.0:
        return f"{1 / ratio:.2f}x slower than {name} (95%: {1 / high:.2f} to {1 / low:.2f})"
    return f"as fast as {name} within noise ({ratio:.2f}x; 95%: {low:.2f} to {high:.2f})"


def _estimated(result: Record) -> str:
    launches, moved = result["launches"], result["bytes"]
    why = "no GPU" if result["verdict"]["device"] == "cpu-interpreter" else "no time was taken"
    return (
        f"Not timed: {why}. {count(launches['before'])} launches become"
        f" {count(launches['after'])}, {quantity(moved['before'], 'B')} become"
        f" {quantity(moved['after'], 'B')} (estimate)"
    )


def _correct(verdict: Record) -> str:
    return f"correct in {_number(len(verdict['cases']), 'case')}"


def _covered(run: Run) -> str:
    winners = [fragment for fragment in run.fragments if fragment["winner"] is not None]
    kernels = sum(max(len(fragment["plan"]), 1) for fragment in winners)
    covered = f"{run.result['operators_triton']} of {len(run.program['calls'])} operators"
    return f"{covered} in {_number(kernels, 'kernel')}"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{count(number)} {noun}s"
