"""The sections of a run's page as plain data for the templates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from kernelwright.core.delivered import TIMED
from kernelwright.core.kinds.fields import ErrorFields, GraphFields, TimingFields
from kernelwright.core.kinds.searching import CandidateLine, FragmentLine
from kernelwright.report import format as text
from kernelwright.report import words
from kernelwright.report.format import count, factor, milliseconds, quantity
from kernelwright.report.outcome import CONTENDERS, compile_note, ending
from kernelwright.report.roofline import ESTIMATED_ON, estimate_ms
from kernelwright.report.run import ReportedRun

OPTIONS = {
    "device": "Device asked for",
    "precision": "Precision",
    "mode": "Mode",
    "budget_s": "Budget in seconds",
    "policy": "Writers of kernels",
}
"""Labels of options, by their name in records."""
NUM_COLORS = 8
"""Fragment colours in style.css; more fragments start over."""
TIMES_NOTE = "Median of single calls with an empty L2 cache. The mark is its 95% interval."


@dataclass(frozen=True, slots=True)
class SectionBar:
    """One bar of a group, with lengths in percent of the group's longest."""

    label: str
    text: str
    share: float
    """Length, in percent of the longest of its group."""
    low: float = 0.0
    high: float = 0.0
    """Ends of the interval, in the same percent; both 0 where there is none."""
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class BarGroup:
    title: str
    bars: tuple[SectionBar, ...]
    gain: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of one verdict against float64, of one measure."""

    what: str
    measure: str
    candidate: float
    reference: float
    allowed: float | None
    """None in records that do not have the limit."""

    @property
    def share(self) -> float | None:
        """The candidate's error in percent of the allowed error; None if that is not known."""
        if self.allowed is None:
            return None
        if self.allowed > 0:
            return 100 * self.candidate / self.allowed
        return 0.0 if self.candidate == 0 else 100.0


@dataclass(frozen=True, slots=True)
class CandidateRow:
    schedule: str
    origin: str
    accepted: bool
    outcome: str
    message: str
    median_ms: float | None
    speedup: float | None
    max_error: float | None
    is_winner: bool


@dataclass(frozen=True, slots=True)
class FragmentView:
    """A fragment's section of the page."""

    name: str
    record: FragmentLine
    color: int
    rows: tuple[CandidateRow, ...]
    code: Markup
    speed: str
    saved: str

    @property
    def won(self) -> bool:
        return self.record["winner"] is not None


def colors_of(fragments: Iterable[FragmentLine]) -> dict[int, int]:
    """Fragment id -> colour, for the fragments that became Triton."""
    won = [f["id"] for f in fragments if f["winner"] is not None]
    return {identity: i % NUM_COLORS for i, identity in enumerate(won)}


def bar_groups(run: ReportedRun) -> list[BarGroup]:
    """Bars before and after: launches, bytes, and times, measured or else estimated.

    A run that leaves the program unchanged has measured times alone.
    """
    is_optimized = ending(run).is_optimized
    launches, moved = run.result["launches"], run.result["bytes"]
    groups = [
        _pair("Kernel launches, counted", launches["before"], launches["after"], count),
        _pair("Bytes moved, estimated", moved["before"], moved["after"], _bytes),
    ]
    time = _times(run, is_optimized=is_optimized) or _estimated_times(run)
    if is_optimized:
        return [*groups, time]
    return [time] if time.bars[0].high else []


def _bytes(value: float) -> str:
    return quantity(value, "B")


def _times(run: ReportedRun, *, is_optimized: bool) -> BarGroup | None:
    """Bars of measured times, and the gain over the fastest other contender; None without times."""
    times = run.result["times"]
    names = [name for name in CONTENDERS if is_optimized or name != TIMED]
    shown = [(CONTENDERS[name], times[name]) for name in names if times.get(name)]
    if not shown:
        return None
    longest = max(timing["high_ms"] for _, timing in shown)
    bars = tuple(
        time_bar(label, timing, longest, is_after=label == CONTENDERS[TIMED])
        for label, timing in shown
    )
    *others_ms, last_ms = (timing["median_ms"] for _, timing in shown)
    gain = factor(min(others_ms) / last_ms) if is_optimized else ""
    return BarGroup("Time of a call", bars, gain, f"{TIMES_NOTE} {compile_note(run)}".strip())


def time_bar(label: str, timing: TimingFields, longest_ms: float, *, is_after: bool) -> SectionBar:
    """The bar of a measured time, with its interval.

    Args:
        longest_ms: the time of a bar of full length.
    """
    return SectionBar(
        label=label,
        text=milliseconds(timing["median_ms"]),
        share=100 * timing["median_ms"] / longest_ms,
        low=100 * timing["low_ms"] / longest_ms,
        high=100 * timing["high_ms"] / longest_ms,
        is_after=is_after,
    )


def _estimated_times(run: ReportedRun) -> BarGroup:
    before_ms, after_ms = estimate_ms(run.program, run.fragments)
    group = _pair("Time", before_ms, after_ms, milliseconds)
    note = (
        "Not measured: there is no GPU here. These bars are estimates: the roofline of an"
        f" {ESTIMATED_ON} in fp32 without tensor cores, launch overhead left out."
    )
    return BarGroup("Time of a call, estimated", group.bars, group.gain, note)


def _pair(title: str, before: float, after: float, show: Callable[[Any], str]) -> BarGroup:
    longest = max(before, after) or 1
    bars = (
        SectionBar("PyTorch", show(before), 100 * before / longest),
        SectionBar("optimized", show(after), 100 * after / longest, is_after=True),
    )
    return BarGroup(title, bars, factor(before / after) if after else "")


def error_rows(run: ReportedRun) -> list[ErrorRow]:
    """Errors of the whole and of every winning candidate, against fp64."""
    judged = [("whole program", run.result["verdict"])]
    for fragment in run.fragments:
        for candidate in run.candidates_of(fragment["id"]):
            if _is_winner(fragment, candidate):
                judged.append((f"fragment {text.fragment(fragment['id'])}", candidate["verdict"]))
                break
    rows: list[ErrorRow] = []
    for what, verdict in judged:
        rows += error_rows_of(what, verdict["errors"])
    return rows


def error_rows_of(what: str, errors: ErrorFields | None) -> list[ErrorRow]:
    """The largest and the rms error of one verdict; no rows where nothing was compared.

    Args:
        what: the name of the judged code.
    """
    if not errors:
        return []
    largest = (errors["max_candidate"], errors["max_reference"], errors.get("max_allowed"))
    rms = (errors["rms_candidate"], errors["rms_reference"], errors.get("rms_allowed"))
    return [ErrorRow(what, "max", *largest), ErrorRow(what, "rms", *rms)]


def fragment_views(run: ReportedRun, colors: dict[int, int]) -> list[FragmentView]:
    """The fragments with their candidates and code, in the order of the records."""
    views = []
    for number, fragment in enumerate(run.fragments):
        rows = [_candidate_row(fragment, c) for c in run.candidates_of(fragment["id"])]
        unfused = sum(run.program["calls"][i]["bytes"] for i in fragment["calls"])
        speed = ""
        if fragment["eager"] and fragment["best"]:
            speed = factor(fragment["eager"]["median_ms"] / fragment["best"]["median_ms"])
        views.append(
            FragmentView(
                name=text.fragment(fragment["id"]),
                record=fragment,
                color=colors.get(fragment["id"], -1),
                rows=tuple(rows),
                code=code(fragment["source"], f"k{number}") if fragment["source"] else Markup(),
                speed=speed,
                saved=f"{quantity(unfused, 'B')} to {quantity(fragment['bytes'], 'B')}",
            )
        )
    return views


def _candidate_row(fragment: FragmentLine, candidate: CandidateLine) -> CandidateRow:
    verdict = candidate["verdict"]
    timing = verdict["times"].get("candidate")
    accepted = verdict["accepted"]
    return CandidateRow(
        schedule=candidate["schedule"],
        origin=candidate["origin"],
        accepted=accepted,
        outcome=words.outcome(verdict["code"]),
        message=words.message(verdict["message"]),
        median_ms=timing["median_ms"] if timing else None,
        speedup=verdict.get("speedup"),
        max_error=verdict["errors"]["max_candidate"] if verdict["errors"] else None,
        is_winner=_is_winner(fragment, candidate),
    )


def _is_winner(fragment: FragmentLine, candidate: CandidateLine) -> bool:
    return bool(candidate["verdict"]["accepted"]) and candidate["schedule"] == fragment["winner"]


def code(source: str, name: str) -> Markup:
    """Python source as highlighted HTML, escaped by pygments.

    Args:
        name: prefix of line ids, different for each source on a page.
    """
    formatter = HtmlFormatter(linespans=name, cssclass="code", wrapcode=True, nobackground=True)
    return Markup(highlight(source, PythonLexer(), formatter))


def _graph(graph: GraphFields | None) -> str:
    if graph is None:
        return "none"
    replayed, launched = milliseconds(graph["replayed_ms"]), milliseconds(graph["launched_ms"])
    return f"replayed in {replayed}; its kernels launched one by one take {launched}"


def facts(run: ReportedRun) -> Sequence[tuple[str, str]]:
    """The programs and versions of a run: label and value."""
    environment, options = run.run["environment"], run.run["options"]
    versions = environment.get("versions", {})
    algebra = ", ".join(run.result.get("algebra", ())) or "none"
    rows = [
        ("Target", str(run.run["target"])),
        ("Ran on", words.device(str(run.run["device"]))),
        ("GPU and driver", str(environment.get("gpu") or "none")),
        *((OPTIONS.get(name, name), f"{value}") for name, value in options.items()),
        *([("Delivered", words.form(form))] if (form := run.result.get("form")) else []),
        ("Time spent", f"{run.result['seconds']:.1f} s"),
        ("Memory layout", str(run.result["layout"])),
        ("Algebraic rewrites", algebra.replace("_", " ")),
        ("CUDA graph", _graph(run.result.get("graph"))),
        ("Python", str(environment.get("python"))),
        *((name, str(version)) for name, version in versions.items() if version),
    ]
    if environment.get("commit"):
        rows.append(("Commit", str(environment["commit"])))
    return rows
