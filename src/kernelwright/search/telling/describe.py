"""The records of a search: what reports and tables are made from."""

from collections import Counter
from dataclasses import asdict, dataclass

from kernelwright.core.record import Record, environment
from kernelwright.core.verdict import Code, Verdict
from kernelwright.programs.program import Call, Program
from kernelwright.programs.text import to_text
from kernelwright.programs.traffic import eager_bytes, eager_launches, kernel_launches, moved_bytes
from kernelwright.search.variant import ServedForm, Variant, Whole


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs of a search."""

    seconds: float
    num_candidates: int
    """The candidates that were written and judged, in all forms."""
    num_from_library: int = 0
    """Fragments that an earlier search had tuned."""


def run_record(name: str, options: Record, verdict: Verdict, spent: Spent) -> Record:
    """The settings that all other records rest on."""
    return {
        "record": "run",
        "command": "optimize",
        "target": name,
        "options": options,
        "environment": environment(),
        "device": verdict.device,
        "seconds": spent.seconds,
    }


def program_record(variant: Variant) -> Record:
    """The program as searched, each call with its facts and the fragment it went into."""
    program = variant.program
    fragment_of = {call: i for i in variant.chosen for call in variant.tuned[i].fragment.calls}
    calls = [
        _call(program, call) | {"fragment": fragment_of.get(i)}
        for i, call in enumerate(program.calls)
    ]
    return {
        "record": "program",
        "text": to_text(program),
        "calls": calls,
        "flops": program.flops(),
        "bytes_unfused": program.bytes_unfused(),
    }


def _call(program: Program, call: Call) -> Record:
    known = None if call.is_extern else call.operator
    return {
        "op": call.op,
        "family": known.family if known else "extern",
        "extern": known is None,
        "inputs": list(call.refs()),
        "outputs": list(call.outputs),
        "shapes": [list(result_type.shape) for result_type in call.types],
        "flops": program.flops_of(call),
        "bytes": eager_bytes(program, [call]),
    }


def tuned_records(variant: Variant) -> list[Record]:
    """All fragments, then the candidates of each, then what models wrote that was none."""
    numbers = range(len(variant.tuned))
    return [
        *(_fragment_record(variant, i) for i in numbers),
        *(line for i in numbers for line in _candidate_records(variant, i)),
        *(line for i in numbers for line in _unread_records(variant, i)),
    ]


def _fragment_record(variant: Variant, index: int) -> Record:
    """One tuned fragment: what was tried, what won and why."""
    tuned = variant.tuned[index]
    program = tuned.fragment.program
    taken, best = index in variant.chosen, tuned.best
    beaten = "stays PyTorch: another fragment over the same operators saves more"
    eager = tuned.eager
    timing = None if tuned.winner is None else tuned.verdicts[tuned.winner].times.get("candidate")
    return {
        "record": "fragment",
        "id": index,
        "calls": sorted(tuned.fragment.calls),
        "ops": [call.op for call in program.calls],
        "family": tuned.family,
        "winner": best.schedule if best and taken else None,
        "reason": tuned.reason if taken or best is None else f"{beaten} ({tuned.reason})",
        "origin": best.origin if best and taken else None,
        "source": best.source if best and taken else None,
        "plan": [asdict(kernel) for kernel in best.plan] if best and taken else [],
        "eager": asdict(eager) if eager else None,
        "best": asdict(timing) if timing else None,
        "bytes": program.bytes_fused(),
        "flops": program.flops(),
        "num_candidates": len(tuned.candidates),
    }


def _candidate_records(variant: Variant, index: int) -> list[Record]:
    """Every candidate of a fragment with its verdict."""
    tuned = variant.tuned[index]
    return [
        {
            "record": "candidate",
            "fragment": index,
            "schedule": candidate.schedule,
            "origin": candidate.origin,
            "verdict": verdict.to_json(),
        }
        for candidate, verdict in zip(tuned.candidates, tuned.verdicts, strict=True)
    ]


def _unread_records(variant: Variant, index: int) -> list[Record]:
    """Every answer of a model that was no candidate for a fragment."""
    unread = variant.tuned[index].unread
    return [{"record": "unread", "fragment": index, **asdict(answer)} for answer in unread]


def whole_record(
    variant: Variant, verdict: Verdict, *, served: ServedForm, is_graph: bool
) -> Record:
    """A whole that was judged, whether or not it was kept in the end."""
    kernels = [variant.tuned[i].best for i in variant.chosen]
    return {
        "record": "whole",
        "layout": variant.layout,
        "algebra": list(variant.algebra),
        "schedules": [kernel.schedule for kernel in kernels if kernel],
        "form": served.value,
        "is_graph": is_graph,
        "verdict": verdict.to_json(),
    }


def form_record(variant: Variant, verdict: Verdict | None) -> Record:
    """A form with its time as a whole beside the original's; without where it is not right.

    Args:
        verdict: None where no kernel won, so that there was nothing to judge.
    """
    return {
        "layout": variant.layout,
        "algebra": list(variant.algebra),
        "rewrites": list(variant.rewrites),
        "code": verdict.code if verdict else Code.NO_KERNEL,
        "times": _times(verdict) if verdict else {},
    }


def _times(verdict: Verdict) -> Record:
    names = {"eager": "reference", "optimized": "candidate"}
    return {k: asdict(verdict.times[v]) for k, v in names.items() if v in verdict.times}


def graph_record(replayed_ms: float, launched_ms: float) -> Record:
    """Medians, in ms, of one call as a CUDA graph and of the same kernels launched one by one."""
    return {"replayed_ms": replayed_ms, "launched_ms": launched_ms}


def verdict_record(whole: Whole) -> Record:
    """Its verdict, and what its graph saves where it is one."""
    replayed, launched_ms = whole.verdict.times.get("candidate"), whole.launched_ms
    graph = graph_record(replayed.median_ms, launched_ms) if replayed and launched_ms else None
    return {"verdict": whole.verdict.to_json(), "graph": graph}


def traffic_record(variant: Variant) -> Record:
    """Launches and bytes of memory traffic before and after, by the estimate: PyTorch launches one
    kernel a call, a candidate those of its plan."""
    original, program = variant.original, variant.program
    chosen = [variant.tuned[i] for i in variant.chosen]
    rest = [program.calls[i] for i in sorted(_outside(variant))]
    # Without kernels the original runs, whatever form was searched.
    if not chosen:
        program, rest = original, list(original.calls)
    return {
        "launches": {
            "before": eager_launches(original.calls),
            "after": sum(kernel_launches(t.best) for t in chosen if t.best) + eager_launches(rest),
        },
        "bytes": {
            "before": eager_bytes(original, original.calls),
            "after": sum(moved_bytes(t.fragment.program, t.best) for t in chosen if t.best)
            + eager_bytes(program, rest),
            "least": original.bytes_fused(),
        },
    }


def _outside(variant: Variant) -> frozenset[int]:
    """Calls that no chosen fragment holds."""
    inside = [variant.tuned[i].fragment.calls for i in variant.chosen]
    return frozenset(range(len(variant.program.calls))) - frozenset().union(*inside)


def result_record(name: str, whole: Whole, spent: Spent) -> Record:
    """The whole: verdict, times, and launches and traffic before and after."""
    variant, verdict = whole.variant, whole.verdict
    original, program = variant.original, variant.program
    chosen = [variant.tuned[i] for i in variant.chosen]
    rest = [program.calls[i] for i in sorted(_outside(variant))]
    return {
        "record": "result",
        "target": name,
        "form": whole.served.value,
        **verdict_record(whole),
        **traffic_record(variant),
        "flops": original.flops(),
        "dtypes": sorted({value.type.dtype for value in original.inputs}),
        "times": _times(verdict),
        "layout": variant.layout,
        "algebra": list(variant.algebra) if chosen else [],
        "rewrites": list(variant.rewrites) if chosen else [],
        "num_operators": len(original.calls),
        "num_fragments": len(variant.tuned),
        "num_triton": len(chosen),
        "origins": dict(Counter(t.best.origin for t in chosen if t.best)),
        "operators_triton": len(program.calls) - len(rest),
        "unknown_operators": sorted({call.op for call in rest if call.is_extern}),
        "source": whole.source,
        "num_candidates": spent.num_candidates,
        "num_from_library": spent.num_from_library,
        "seconds": spent.seconds,
    }
