"""Files whose records have no page of their own: the first page has a sentence of figures for each
measurement in such a file."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.core.commits import named, with_commits
from kernelwright.core.kinds.judging import LintErrorLine, LintLine
from kernelwright.core.kinds.models import ModelCaseLine
from kernelwright.core.kinds.suites import CorpusCaseLine, ThroughputLine
from kernelwright.core.kinds.tritonbench import TritonBenchCaseLine
from kernelwright.core.record import Record, of_kind
from kernelwright.report.format import count, factor
from kernelwright.report.models import last_cases, sentence
from kernelwright.report.tritonbench import score_of

UNKNOWN = "not recorded"
"""A fact that no record has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherRecords:
    """A file whose records have no page of their own."""

    name: str
    counts: str
    """The number of records of each kind."""
    figures: tuple[tuple[str, str], ...]
    """Pairs: a sentence about measured cases, then the device and the commits of these cases. The
    tuple is empty if the file has no measurements."""


def other_records(name: str, lines: Sequence[Record]) -> OtherRecords:
    """The number of records of each kind in a file, and sentences about its measurements.

    Args:
        name: the name of the file on the page.
        lines: all records of the file.
    """
    kinds = Counter(str(line.get("record")) for line in lines)
    committed = [{**line, "commit": commit} for line, commit in with_commits(lines)]
    return OtherRecords(
        name=name,
        counts=", ".join(f"{kind}: {count(number)}" for kind, number in kinds.items()),
        figures=tuple((text, _origin(cases, lines)) for text, cases in _figures(committed)),
    )


def _origin(cases: Iterable[Any], lines: Sequence[Record]) -> str:
    """The device and the commits of some cases of a file. A case without an environment has the
    device of the file."""
    own = [case for case in cases if "environment" in case]
    return f"{device_of(own or lines)}; commit {named(case['commit'] for case in cases)}"


def device_of(heads: Iterable[Record]) -> str:
    """The GPUs of some runs, separated by commas; "CPU" for a run without a GPU.

    Args:
        heads: records with the environment of a run; records without one are left out.
    """
    gpus = [head["environment"].get("gpu") for head in heads if "environment" in head]
    names = dict.fromkeys(str(gpu).split(",")[0] if gpu else "CPU" for gpu in gpus)
    return ", ".join(names) or UNKNOWN


def _figures(lines: Sequence[Record]) -> Iterator[tuple[str, Sequence[Any]]]:
    """A sentence for each kind of measurement among the records, and the cases that the sentence
    counts."""
    # A resumed run may record a case again. A dictionary keeps the last record of each case.
    if corpus := {(case["kind"], case["name"]): case for case in of_kind(lines, CorpusCaseLine)}:
        yield f"Corpus: {corpus_sentence([*corpus.values()])}", [*corpus.values()]
    if posed := {case["name"]: case for case in of_kind(lines, TritonBenchCaseLine)}:
        yield _tritonbench([*posed.values()]), [*posed.values()]
    linted = {line["task"]: line for line in of_kind(lines, LintLine)}
    failed = {line["task"]: line for line in of_kind(lines, LintErrorLine)}
    if linted or failed:
        yield (
            _lint([*linted.values()], len(failed.keys() - linted.keys())),
            [*linted.values(), *failed.values()],
        )
    if models := last_cases(of_kind(lines, ModelCaseLine)):
        yield f"Models: {sentence(models)}", models
    yield from ((_throughput(line), [line]) for line in of_kind(lines, ThroughputLine))


def corpus_sentence(cases: Sequence[CorpusCaseLine]) -> str:
    """The numbers of cheats that were stopped and of honest kernels that were accepted."""
    judged = [case for case in cases if case["code"] != "infra"]
    cheats = [case["accepted"] for case in judged if case["kind"] == "cheats"]
    honest = [case["accepted"] for case in judged if case["kind"] == "honest"]
    parts = [f"{cheats.count(False)} of {len(cheats)} cheats stopped"] if cheats else []
    if honest:
        parts.append(f"{honest.count(True)} of {len(honest)} honest kernels accepted")
    if failed := len(cases) - len(judged):
        parts.append(f"our side failed in {failed} cases")
    return f"{', '.join(parts)}."


def _tritonbench(cases: Sequence[TritonBenchCaseLine]) -> str:
    score = score_of(cases)
    text = f"TritonBench: {score.correct} of {score.tasks} tasks correct"
    text += f"; the judge can pose {score.posable}"
    if score.speedup is not None:
        text += f"; {factor(score.speedup.value)} over the golden code (mean of {score.timed})"
    return f"{text}."


def _lint(lines: Sequence[LintLine], failed: int) -> str:
    severities = [{finding["severity"] for finding in line["findings"]} for line in lines]
    clean, weak = severities.count(set()), severities.count({"weak"})
    text = f"Linter: {len(lines)} tasks, {clean} clean, {weak} with weak findings alone"
    text += f", {len(lines) - clean - weak} with other findings"
    return f"{text}, {failed} not linted." if failed else f"{text}."


def _throughput(line: ThroughputLine) -> str:
    plan, rate = line["plan"], line["per_second"]
    timed = "with times" if plan["timing"] else "without times"
    speed = "" if rate is None else f", {rate:.1f} a second"
    return f"Judge, {plan['grade']}, {timed}: {count(line['verdicts'])} verdicts{speed}."
