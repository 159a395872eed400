"""The page of one task: verdict, times, roofline, errors and kernels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from kernelwright.core.delivered import (
    COMPILE,
    EAGER,
    ORIGINAL,
    TIMED,
    form_of,
    may_win,
    measured,
    timing_of,
)
from kernelwright.core.kinds.fields import PlanFields, TimingFields
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report import words
from kernelwright.report.curves import percent
from kernelwright.report.format import Rows, factor, milliseconds
from kernelwright.report.rendering import asset, template
from kernelwright.report.roofline import RooflineChart, chart
from kernelwright.report.sections import (
    TIMES_NOTE,
    BarGroup,
    FragmentView,
    SectionBar,
    code,
    colors_of,
    error_rows_of,
    fragment_views,
    time_bar,
)
from kernelwright.report.site.reading import SiteRun
from kernelwright.report.site.summary import MAX_AUTOTUNE
from kernelwright.report.site.texts import TaskTexts
from kernelwright.report.suite import failures
from kernelwright.report.suite.rows import case_name, kind_of
from kernelwright.report.suite.scores import roofline_share

LABELS = {EAGER: "PyTorch", COMPILE: "torch.compile", MAX_AUTOTUNE: "max-autotune"}
"""Names of baselines, by the names of their times in records."""
TIMED_RIGHT = "right kernel, not delivered"
"""The label of a time of correct kernels that the user does not get."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchView:
    """The search for a task's kernels, as data for the template."""

    fragments: list[FragmentView]
    roofline: RooflineChart | None
    points: Rows
    """The points of the roofline as a table."""
    module: Markup
    """The highlighted text of `optimized.py`."""


def page(run: SiteRun, case: CaseLine, texts: TaskTexts, links: Mapping[str, str]) -> str:
    """The page of a task as HTML text.

    Args:
        links: "previous", "next" and "search" -> paths of pages beside this page; any may be
            missing.
    """
    answer = texts.answer or {}
    source = answer.get("source", "")
    verdict = texts.search.result["verdict"] if texts.search else texts.verdict
    return template("site/task.html").render(
        run=run,
        case=case,
        name=case_name(case),
        kind=kind_of(case),
        result=result(case),
        outcome="Accepted." if case["correct"] else failures.reason(case),
        meaning=failures.meaning(case),
        recorded=failures.raw(case),
        verdict=verdict,
        times=times(case),
        time_rows=time_rows(case),
        roofline=roofline(case),
        errors=error_rows_of("result", case.get("errors")),
        facts=list(facts(case)),
        search=_search_view(texts),
        source=code(source, "a") if source else Markup(),
        unread=answer.get("text", ""),
        plan=answer.get("plan", []),
        plan_rows=plan_rows,
        links=links,
        words=words,
        stylesheet="../style.css",
        script=asset("table.js") if texts.search else "",
    )


def result(case: CaseLine) -> str:
    """A sentence: the judge's result, and the code that the user gets."""
    if not case["correct"]:
        return failures.why(case)
    return f"The judge accepted a kernel. The user gets: {words.form(form_of(case))}."


def _contenders(case: CaseLine) -> Iterator[tuple[str, str, TimingFields]]:
    """Everything that was timed in a case, as triples: name in the record, label, times."""
    form = form_of(case)
    label = TIMED_RIGHT if form == ORIGINAL else f"delivered: {words.computed_by(form)}"
    for name, shown in {**LABELS, TIMED: label}.items():
        if timing := timing_of(case, name):
            yield name, shown, timing


def times(case: CaseLine) -> BarGroup | None:
    """Bars of all times and of the least time that the hardware allows; None without times."""
    contenders = list(_contenders(case))
    if not contenders:
        return None
    longest = max(timing["high_ms"] for _, _, timing in contenders)
    bars = [
        time_bar(label, timing, longest, is_after=name == TIMED and may_win(case))
        for name, label, timing in contenders
    ]
    if floor_ms := case.get("floor_ms"):
        text, share = milliseconds(floor_ms), min(100.0, 100 * floor_ms / longest)
        bars.append(SectionBar(label="least time", text=text, share=share))
    return BarGroup("Time of a call", tuple(bars), "", TIMES_NOTE)


def time_rows(case: CaseLine) -> Rows:
    """A heading, then a row for each time: median, 95% interval, number of calls, and the speed-up
    of the search's result over this code."""
    rows: Rows = [("code", "median", "95% interval", "calls", "speed-up over this code")]
    for name, label, timing in _contenders(case):
        ratio = measured(case, name) if name != TIMED else None
        over = ""
        if ratio:
            ends = ratio.interval
            over = factor(ratio.value) + (f" ({ends[0]:.2f} to {ends[1]:.2f})" if ends else "")
        low, high = milliseconds(timing["low_ms"]), milliseconds(timing["high_ms"])
        median = milliseconds(timing["median_ms"])
        rows.append((label, median, f"{low} to {high}", str(timing["num_samples"]), over))
    return rows


def roofline(case: CaseLine) -> str:
    """A sentence about the distance from the limit of the hardware; "" if the record has no
    limit."""
    floor_ms, share = case.get("floor_ms"), roofline_share(case)
    if not floor_ms:
        return ""
    least = (
        "The bytes and FLOPs of the task need at least"
        f" {milliseconds(floor_ms)} on this GPU, by its data sheet."
    )
    return f"{least} The user's code reaches {percent(share)} of that limit." if share else least


def facts(case: CaseLine) -> Iterator[tuple[str, str]]:
    """Label and value of the record's other figures."""
    numbers = {
        "Operators": case.get("num_operators"),
        "Operators in Triton": case.get("operators_triton"),
        "Candidates judged": case.get("candidates"),
    }
    yield from ((label, str(number)) for label, number in numbers.items() if number is not None)
    names = {
        "Algebraic rewrites": case.get("algebra"),
        "Other rewrites": case.get("rewrites"),
        "Operators of the program": case.get("operators"),
    }
    for label, listed in names.items():
        if listed:
            yield label, ", ".join(name.replace("_", " ") for name in listed)
    if schedule := case.get("schedule"):
        yield "Schedule", schedule
    if graph := case.get("graph"):
        replayed, launched = (milliseconds(graph[key]) for key in ("replayed_ms", "launched_ms"))
        yield "CUDA graph", f"{replayed}; its kernels launched one by one: {launched}"
    for baseline, message in case.get("baselines_failed", {}).items():
        yield f"{LABELS.get(baseline, baseline)} cannot run the task", message
    if (seconds := case.get("seconds")) is not None:
        yield "Time spent", f"{seconds:.1f} s"


def plan_rows(plan: list[PlanFields]) -> Rows:
    """A heading, then a row for each kernel of a plan."""
    rows: Rows = [("kernel", "fuses", "loop", "tiles", "precision", "why")]
    for kernel in plan:
        tiles = ", ".join(f"{name} {size}" for name, size in kernel.get("tiles", {}).items())
        fuses = ", ".join(kernel.get("fuses", []))
        name, loop = str(kernel.get("kernel", "")), str(kernel.get("loop", ""))
        rows.append(
            (name, fuses, loop, tiles, kernel.get("precision", ""), str(kernel.get("why", "")))
        )
    return rows


def _search_view(texts: TaskTexts) -> SearchView | None:
    """The search for the task's kernels; None if its records are missing."""
    if (run := texts.search) is None:
        return None
    colors = colors_of(run.fragments)
    roofline_chart = chart(run.program, run.fragments, colors, str(run.run["device"]))
    places = roofline_chart.points if roofline_chart else ()
    points = [(place.label, place.tooltip) for place in places]
    return SearchView(
        fragments=fragment_views(run, colors),
        roofline=roofline_chart,
        points=[("fragment", "place"), *points],
        module=code(run.result["source"], "m"),
    )
