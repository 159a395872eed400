"""The end of a search, in numbers and in sentences that console, JSON and report share."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.core.record import Record
from kernelwright.core.verdict import Timing
from kernelwright.policy.answer import Malformed
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.traffic import kernel_launches
from kernelwright.search.telling.describe import traffic_record
from kernelwright.search.tune import Tuned, rival_of
from kernelwright.search.variant import ServedForm, Variant, Whole

NO_GPU = "Nothing was timed, because there is no GPU."


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedSearch:
    """Everything that the outcome of a search is told from."""

    whole: Whole
    """The whole that optimized.py holds."""
    searched: Sequence[Variant]
    """Every form of the program, with its fragments."""
    tuned: Sequence[Tuned]
    """Distinct fragments with all candidates that were written for them."""
    refused: Sequence[Whole]
    """Wholes with kernels that were judged and not kept."""
    left_out: Sequence[str]
    """Sentences: what the deadline cut off."""
    is_interrupted: bool
    on_gpu: bool
    budget_s: float
    timed: Record = field(default_factory=dict)
    """Fields of the result record from timing torch.compile beside the result."""
    beaten_ms: float | None = None
    """A call of the fastest whole with kernels that PyTorch or torch.compile has beaten."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Wholes that could not be timed beside torch.compile, and why."""


@dataclass(frozen=True, slots=True)
class _FragmentCounts:
    """Fragments of all forms, and candidates for distinct fragments."""

    proposed: int
    tried: int
    untried: int
    right: int
    reasons: Counter[str]
    cut_off: int

    @property
    def wrong(self) -> int:
        return self.reasons.total()

    @property
    def candidates(self) -> int:
        return self.right + self.wrong + self.cut_off


def outcome_record(ended: EndedSearch) -> Record:
    """The result record's "outcome": status, cause, message, and the counts behind them."""
    counts = _counted(ended)
    is_optimized = bool(ended.whole.variant.chosen)
    if is_optimized:
        cause, message = None, _optimized(ended)
        if counts.untried:
            message += f" {_untried(ended, counts)}"
    else:
        cause, message = _unchanged(ended, counts)
        inside = " inside torch.compile" if ended.whole.served is ServedForm.COMPILED else ""
        inside += " with CUDA graphs" if ended.whole.contender is not None else ""
        message += f" optimized.py holds the original module{inside}."
        if cause == "out_of_time":
            message += " A larger budget may help."
    if ended.is_interrupted and not counts.tried:
        cause = "interrupted"
        message = (
            "The search was interrupted before a fragment was tried. optimized.py holds the"
            " original module."
        )
    elif ended.is_interrupted:
        cause, message = "interrupted", f"{_interrupted(counts)} {message}"
    return {
        "status": "optimized" if is_optimized else "unchanged",
        "cause": cause,
        "message": message,
        "fragments": {"proposed": counts.proposed, "tried": counts.tried},
        "candidates": {
            "tried": counts.candidates,
            "right": counts.right,
            "wrong": counts.wrong,
            "cut_off": counts.cut_off,
            "reasons": dict(counts.reasons.most_common()),
        },
        "left_out": _left_out(ended, counts),
        "kept_in_pytorch": _kept_in_pytorch(ended.whole.variant),
    }


def _counted(ended: EndedSearch) -> _FragmentCounts:
    fragments = [tuned for variant in ended.searched for tuned in variant.tuned]
    untried = sum(variant.num_untried for variant in ended.searched)
    reasons, cut_off, right = Counter[str](), 0, 0
    for tuned in ended.tuned:
        right += sum(verdict.accepted for verdict in tuned.verdicts)
        reasons.update(str(verdict.code) for verdict in tuned.verdicts if not verdict.accepted)
        # An answer that the clock cut off is not a wrong answer.
        late = [answer for answer in tuned.unread if answer.reason == Malformed.OUT_OF_TIME]
        reasons.update(answer.reason for answer in tuned.unread if answer not in late)
        cut_off += tuned.num_cut_off + len(late)
    return _FragmentCounts(
        proposed=len(fragments) + untried,
        tried=sum(map(_is_tried, fragments)),
        untried=untried,
        right=right,
        reasons=reasons,
        cut_off=cut_off,
    )


def _is_tried(tuned: Tuned) -> bool:
    return bool(tuned.candidates or tuned.unread or tuned.num_cut_off)


def _optimized(ended: EndedSearch) -> str:
    """For example "1.90x faster than PyTorch (95%: 1.85 to 1.95), correct in 10 cases, ..."."""
    variant, verdict = ended.whole.variant, ended.whole.verdict
    chosen = [variant.tuned[i] for i in variant.chosen]
    kernels = sum(kernel_launches(tuned.best) for tuned in chosen if tuned.best)
    inside = sum(len(tuned.fragment.calls) for tuned in chosen)
    covered = f"{inside} of {len(variant.program.calls)} operators in {_count(kernels, 'kernel')}"
    correct = f"correct in {_count(len(verdict.cases), 'case')}"
    return f"{_gain(ended)}, {correct}, {covered}."


def _gain(ended: EndedSearch) -> str:
    """The measured speed, or without a GPU the estimate."""
    verdict, speedups = ended.whole.verdict, dict(ended.timed.get("speedups", {}))
    if "over_eager" not in speedups and verdict.speedup_interval is not None:
        speedups["over_eager"] = [verdict.speedup, *verdict.speedup_interval]
    if "over_eager" in speedups:
        gain = compared("PyTorch", *speedups["over_eager"])
        if "over_compile" in speedups:
            gain += f" and {compared('torch.compile', *speedups['over_compile'])}"
        return gain
    estimate = traffic_record(ended.whole.variant)
    launches, moved = estimate["launches"], estimate["bytes"]
    why = "no time was taken" if ended.on_gpu else "no GPU"
    return (
        f"Not timed: {why}. {_count(launches['before'], 'launch')} become {launches['after']},"
        f" {_size(moved['before'])} become {_size(moved['after'])} (estimate)"
    )


def compared(name: str, ratio: float, low: float, high: float) -> str:
    """A measured ratio in words: faster or slower only where the 95% interval excludes 1."""
    if low > 1.0:
        return f"{ratio:.2f}x faster than {name} (95%: {low:.2f} to {high:.2f})"
    if high < 1.0:
        return f"{1 / ratio:.2f}x slower than {name} (95%: {1 / high:.2f} to {1 / low:.2f})"
    return f"as fast as {name} within noise ({ratio:.2f}x; 95%: {low:.2f} to {high:.2f})"


def _unchanged(ended: EndedSearch, counts: _FragmentCounts) -> tuple[str, str]:
    """The cause and its sentences, where no kernel is kept."""
    if not counts.proposed and any(variant.is_unproposed for variant in ended.searched):
        return (
            "out_of_time",
            f"The budget of {ended.budget_s:g} s ended before fragments were proposed.",
        )
    if not counts.proposed:
        names = ", ".join(_kept_in_pytorch(ended.whole.variant)) or "views alone"
        message = f"Nothing can be fused here: the module computes with {names}."
        results = [result for call in ended.whole.variant.original.calls for result in call.types]
        if any(result.dtype == "float64" for result in results):
            message += " No kernel is written for float64, because kernels compute in float32."
        return "nothing_to_fuse", message
    # Time comes before the other causes: a fragment that was not tried might have won.
    if counts.untried or (counts.cut_off and not counts.right and not counts.wrong):
        return "out_of_time", f"{_untried(ended, counts)} {_of_candidates(counts)}".strip()
    if counts.tried and not counts.right:
        return "all_wrong", f"No kernel is right. {_of_candidates(counts)}"
    wrong = [whole for whole in ended.refused if not whole.verdict.accepted]
    if wrong and len(wrong) == len(ended.refused):
        verdict = wrong[0].verdict
        return "all_wrong", (
            "Kernels are right one by one, and the module with them was rejected"
            f" ({verdict.code}): {verdict.message}."
        )
    if ended.left_out and not ended.refused:
        return "out_of_time", " ".join(ended.left_out)
    return "not_faster", _not_faster(ended, counts)


def _not_faster(ended: EndedSearch, counts: _FragmentCounts) -> str:
    right = f"{_count(counts.right, 'kernel')} {'are' if counts.right != 1 else 'is'} right, and"
    if ended.on_gpu:
        return f"{right} {_not_faster_on_gpu(ended)}"
    fragments = [tuned for variant in ended.searched for tuned in variant.tuned]
    reasons = Counter(t.reason.removeprefix("stays PyTorch: ") for t in fragments if not t.best)
    why = "; ".join(reasons) or "more kernels would be launched, or more bytes moved, than before"
    gain = f"{right} by the estimate none gains" if counts.right else "By the estimate none gains"
    return f"{gain}: {why}. {NO_GPU}"


def _not_faster_on_gpu(ended: EndedSearch) -> str:
    if ended.beaten_ms is not None:
        rival, name = ("PyTorch", "eager")
        if ended.whole.served is ServedForm.COMPILED:
            rival, name = ("torch.compile", "compiled")
        rival_ms = ended.timed["times"][name]["median_ms"]
        return _none_is_faster(rival, "the module with them", ended.beaten_ms, rival_ms)
    if ended.failed:
        return f"the module with them was not timed: {next(iter(ended.failed.values()))}."
    slower = [whole.verdict for whole in ended.refused if whole.verdict.speedup is not None]
    if slower:
        times = max(slower, key=lambda verdict: verdict.speedup or 0.0).times
        ours, theirs = times["candidate"].median_ms, times["reference"].median_ms
        return _none_is_faster("PyTorch", "the module with them", ours, theirs)
    timed = [(tuned, v.times) for tuned in ended.tuned for v in tuned.verdicts if v.times]
    if not timed:
        return "none was timed."

    def ratio(pair: tuple[Tuned, Mapping[str, Timing]]) -> float:
        _, times = pair
        return rival_of(times)[1].median_ms / times["candidate"].median_ms

    tuned, times = max(timed, key=ratio)
    name, rival_timing = rival_of(times)
    subject = f"the best, for {_operators(tuned)},"
    return _none_is_faster(name, subject, times["candidate"].median_ms, rival_timing.median_ms)


def _none_is_faster(rival: str, subject: str, ours_ms: float, rival_ms: float) -> str:
    return (
        f"none is faster than {rival}: {subject} takes {ours_ms:.4g} ms and {rival}"
        f" {rival_ms:.4g} ms (measured)."
    )


def _of_candidates(counts: _FragmentCounts) -> str:
    """For example "Of 11 candidates 9 were wrong (wrong values 9) and 2 were cut off"."""
    if not counts.candidates:
        return ""
    parts = []
    if counts.right:
        parts.append(f"{counts.right} right")
    if counts.wrong:
        names = (f"{code.replace('_', ' ')} {n}" for code, n in counts.reasons.most_common())
        parts.append(f"{counts.wrong} wrong ({', '.join(names)})")
    if counts.cut_off:
        parts.append(f"{counts.cut_off} cut off by the clock")
    return f"Of {_count(counts.candidates, 'candidate')}: {', '.join(parts)}."


def _untried(ended: EndedSearch, counts: _FragmentCounts) -> str:
    if ended.is_interrupted:
        return f"{counts.untried} of {_count(counts.proposed, 'fragment')} were not tried."
    begin = f"The budget of {ended.budget_s:g} s ended before"
    if not counts.untried:
        return f"{begin} a candidate was judged."
    return f"{begin} {counts.untried} of {_count(counts.proposed, 'fragment')} were tried."


def _interrupted(counts: _FragmentCounts) -> str:
    return (
        f"The search was interrupted when {counts.tried} of"
        f" {_count(counts.proposed, 'fragment')} had been tried."
    )


def _left_out(ended: EndedSearch, counts: _FragmentCounts) -> list[str]:
    sentences = list(ended.left_out)
    if counts.untried:
        sentences.insert(0, _untried(ended, counts))
    if counts.cut_off:
        were = "was" if counts.cut_off == 1 else "were"
        sentences.append(f"{_count(counts.cut_off, 'candidate')} {were} cut off by the clock.")
    if untimed := ended.timed.get("torch_compile", {}).get("message"):
        sentences.append(untimed)
    return sentences


def _kept_in_pytorch(variant: Variant) -> list[str]:
    inside = frozenset[int]().union(*(variant.tuned[i].fragment.calls for i in variant.chosen))
    calls = enumerate(variant.program.calls if variant.chosen else variant.original.calls)
    return sorted({c.op for i, c in calls if i not in inside and c.op not in RELABELLING})


def _operators(tuned: Tuned) -> str:
    names: Iterable[str] = (call.op for call in tuned.fragment.program.calls)
    return "+".join(names)


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} GB"
