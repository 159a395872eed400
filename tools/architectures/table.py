"""Records of the suite as a page of Markdown tables."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from kernelwright.core.record import Record

INTRODUCTION = """# Public architectures

Which public models can kernelwright read? The page has models of transformers, timm, torchvision,
diffusers and torch.nn, with random weights and small configurations. Decoders run prompts and
decode steps with their caches. No kernel is searched here.

- **lowered**: the model becomes a flat program of known operators.
- **refused**: the model cannot be lowered. The reasons are listed below.
- **numbers differ**: the program and eager PyTorch compute different numbers.
- **text differs**: the text of the program, read again, is another program.
- **cannot be written**: no `optimized.py` can be written for the model.
- **calls in PyTorch**: calls of operators that kernelwright does not know. They stay in PyTorch.
- **forms**: rewritten programs that compute the same. **proposals**: fragments for the search.

`python -m tools.architectures run FILE` measures the models. The command for this page is
`python -m tools.architectures table results/architectures-cpu.jsonl > docs/models.md`."""
SLOWEST = 15
LOWERING_S = 20.0
"""CPU seconds that lowering an architecture may take."""


def page(cases: Sequence[Record]) -> str:
    """Rates by family, calls that stay in PyTorch, failures, and the slowest cases."""
    counted = [case for case in cases if case["status"] != "unbuilt"]
    lowered = [case for case in counted if case["status"] == "lowered" or "calls" in case]
    share = len(lowered) / max(len(counted), 1)
    slow = sum(lowering_s(case) > LOWERING_S for case in counted)
    parts = [
        INTRODUCTION,
        f"{len(counted)} cases; {len(lowered)} lowered as called ({share:.1%}); {slow} spent more "
        f"than {LOWERING_S:.0f} CPU seconds in lowering.",
        "## Rates by family\n\n" + _rates(counted),
        "## Calls that stay in PyTorch, by operator\n\n" + _extern_operators(lowered),
        "## Cases that were not lowered, or failed later\n\n" + _failures(counted),
        "## Slowest cases (CPU seconds)\n\n" + _slowest(counted),
    ]
    return "\n\n".join(parts) + "\n"


def lowering_s(case: Record) -> float:
    """CPU seconds of the whole lowering, export included."""
    seconds: float = case["cpu_s"].get("lower", case["cpu_s"].get("export", 0.0))
    return seconds


def _rates(cases: Sequence[Record]) -> str:
    groups: dict[str, list[Record]] = {"all": list(cases)}
    for case in sorted(cases, key=lambda case: case["family"]):
        groups.setdefault(case["family"], []).append(case)
    columns: dict[str, Callable[[Record], bool]] = {
        "lowered": lambda case: "calls" in case,
        "refused": lambda case: case["status"] == "refused",
        "crash": lambda case: case["status"] == "crash",
        "timeout": lambda case: case["status"] == "timeout",
        "numbers differ": lambda case: case.get("same_numbers") is False,
        "text differs": lambda case: case.get("round_trip") is False,
        "cannot be written": lambda case: bool(case.get("unwritten")),
    }
    rows = [
        [family, len(group), *(sum(map(holds, group)) for holds in columns.values()), _kept(group)]
        for family, group in groups.items()
    ]
    return _table(["family", "cases", *columns, "calls in PyTorch"], rows)


def _kept(cases: Iterable[Record]) -> str:
    """Calls without an operator record, of all calls."""
    lowered = [case for case in cases if "calls" in case]
    num_extern = sum(sum(case["extern"].values()) for case in lowered)
    num_calls = sum(case["calls"] for case in lowered)
    return f"{num_extern} of {num_calls}"


def _extern_operators(cases: Sequence[Record]) -> str:
    calls: Counter[str] = Counter()
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        calls.update(case["extern"])
        for op in case["extern"]:
            families[op][case["family"]] += 1
    rows = [
        [f"`{op}`", families[op].total(), count, _listed(families[op])]
        for op, count in sorted(calls.items(), key=lambda item: -families[item[0]].total())
    ]
    return _table(["operator", "models", "calls", "models by family"], rows)


def _listed(families: Counter[str]) -> str:
    return ", ".join(f"{family} {count}" for family, count in families.most_common())


def _failures(cases: Sequence[Record]) -> str:
    failed = [case for case in cases if case["status"] != "lowered"]
    rows = [
        [case["name"], case["status"], case["stage"], *map(_cell, _explained(case))]
        for case in failed
    ]
    return _table(["case", "status", "stage", "place", "message", "remedy"], rows)


def _explained(case: Record) -> list[str]:
    """Place, message and remedy."""
    return [case.get(fact) or "none" for fact in ("place", "message", "remedy")]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _slowest(cases: Sequence[Record]) -> str:
    stages = ("export", "lower", "forms", "proposals")

    def total_s(case: Record) -> float:
        return float(sum(case["cpu_s"].get(stage, 0.0) for stage in stages[1:]))

    rows = [
        [case["name"], case.get("calls", ""), *(case["cpu_s"].get(s, "") for s in stages)]
        for case in sorted(cases, key=total_s, reverse=True)[:SLOWEST]
    ]
    return _table(["case", "calls", "export", "lower, export included", *stages[2:]], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
