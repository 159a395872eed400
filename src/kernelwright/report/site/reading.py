"""Reads the records that a site shows: runs of suites, training runs, optimized modules.

Older records lack fields. A missing field is read from the record of the run, or left empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from kernelwright.core import record
from kernelwright.core.commits import named
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.searching import ResultLine
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.record import Record, word_of
from kernelwright.report.naming import Slugs, names_of
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.report.site.others import UNKNOWN, OtherRecords, device_of, other_records
from kernelwright.report.suite.page import RECORDS
from kernelwright.report.training.run import Training, has_steps, read_training

FOLDERS = COMPARED, MODULES, TRAININGS = ("compare", "modules", "training")
"""Folders of a site for comparisons, modules and training runs. No folder of a run has these
names."""
REMEDY = "name a file of records, or a folder that `optimize`, `eval` or `train` wrote"
TYPES = {
    **dict.fromkeys(("suite", "level", "policy", "mode", "precision", "name"), str),
    **dict.fromkeys(("code", "message"), str),
    **dict.fromkeys(("id", "sample"), int),
    "correct": bool,
}
"""Field of a case -> type. Every case has these fields, or gets them from the record of its
run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRun:
    """The cases of one writer of kernels under one setting, from one file."""

    name: str
    slug: str
    """The name of the run's folder in the site."""
    file: Path
    """The file of the records."""
    command: str
    policy: str
    mode: str
    precision: str
    device: str
    commits: tuple[str, ...]
    """Commits of kernelwright that the cases come from."""
    notes: tuple[str, ...]
    """Remarks that were added to the records by hand."""
    cases: tuple[CaseLine, ...]
    """The last record of each answer, by suite, level, number and sample."""

    @property
    def commit(self) -> str:
        """The commits for a table; several are marked as mixed."""
        return named(self.commits) or "not recorded"

    @property
    def folder(self) -> Path | None:
        """The folder that the command wrote; None where a file was named alone."""
        return self.file.parent if self.file.name == RECORDS else None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedTraining:
    """A run of `train`."""

    name: str
    slug: str
    training: Training


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedModule:
    """A run of `optimize`."""

    name: str
    slug: str
    file: Path
    run: ReportedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRecords:
    """The runs and files that a site shows, in the order of the paths that the user named."""

    runs: tuple[SiteRun, ...]
    trainings: tuple[NamedTraining, ...]
    modules: tuple[NamedModule, ...]
    others: tuple[OtherRecords, ...]


def read_records(paths: Sequence[Path]) -> SiteRecords:
    """Read files of records, or folders that hold `records.jsonl`.

    Raises:
        UsageError: a path has no records, or a line is no record, or lacks a field.
    """
    files = [file_of(path) for path in paths]
    # The names of runs come from folders, because most files are called records.jsonl.
    places = [file.parent if file.name == RECORDS else file.with_suffix("") for file in files]
    runs: list[SiteRun] = []
    trainings: list[NamedTraining] = []
    modules: list[NamedModule] = []
    others: list[OtherRecords] = []
    slugs = Slugs(taken=FOLDERS)
    for name, file in dict(zip(names_of(places), files, strict=True)).items():
        with record.damage_in(file):
            if file.name == RECORDS and has_steps(file):
                training = read_training(file.parent)
                trainings.append(NamedTraining(name=name, slug=slugs.new(name), training=training))
                continue
            lines = _lines_of(file)
            kinds = {line.get("record") for line in lines}
            if word_of(CaseLine) in kinds:
                runs += _runs_of(name, file, lines, slugs)
            elif word_of(ResultLine) in kinds and file.name == RECORDS:
                search, slug = read_run(file), slugs.new(name)
                modules.append(NamedModule(name=name, slug=slug, file=file, run=search))
            else:
                others.append(other_records(name, lines))
    return SiteRecords(
        runs=tuple(runs), trainings=tuple(trainings), modules=tuple(modules), others=tuple(others)
    )


def file_of(path: Path) -> Path:
    """The file of records that a path names: the file itself, or the file in a folder.

    Raises:
        UsageError: there is no such file.
    """
    file = path / RECORDS if path.is_dir() else path
    if not file.is_file():
        message = "no records here" if file.exists() or path.is_dir() else "there is no such path"
        raise UsageError(message, file=str(file), remedy=REMEDY)
    return file


def _lines_of(file: Path) -> list[Record]:
    """The records of a file.

    Raises:
        UsageError: there are none.
    """
    lines = list(record.read(file, whole=True))
    if not lines:
        raise UsageError("the file has no records yet", file=str(file), remedy=REMEDY)
    return lines


@dataclass(slots=True)
class _Setting:
    """The cases and the run records of one policy, mode and precision in a file."""

    heads: list[Record] = field(default_factory=list)
    cases: dict[tuple[str, str, int, int], CaseLine] = field(default_factory=dict)


def _runs_of(name: str, file: Path, lines: Sequence[Record], slugs: Slugs) -> Iterator[SiteRun]:
    """The runs in a file: one for each policy, mode and precision."""
    notes = tuple(str(line["text"]) for line in lines if line.get("record") == "note")
    settings = _settings(file, lines)
    policies = {policy for policy, _, _ in settings}
    for (policy, mode, precision), setting in settings.items():
        parts = [name, policy] if len(policies) > 1 else [name]
        parts += [mode, precision] if len(settings) > len(policies) else []
        heads = setting.heads
        cases = tuple(setting.cases[key] for key in sorted(setting.cases, key=_in_order))
        yield SiteRun(
            name=", ".join(parts),
            slug=slugs.new("-".join(parts)),
            file=file,
            command=str(heads[-1].get("command", "")) if heads else "",
            policy=policy,
            mode=mode,
            precision=precision,
            device=device_of(heads),
            commits=_commits(cases, heads),
            notes=(*notes, *(str(head["note"]) for head in heads if head.get("note"))),
            cases=cases,
        )


def _settings(file: Path, lines: Sequence[Record]) -> dict[tuple[str, str, str], _Setting]:
    """(policy, mode, precision) -> the cases under this setting, and the heads of their runs."""
    settings: dict[tuple[str, str, str], _Setting] = {}
    head: Record = {}
    for number, line in enumerate(lines):
        if line.get("record") == "run":
            head = line
        if line.get("record") != word_of(CaseLine):
            continue
        case = _filled(line, head, number)
        _check(case, file, number + 1)
        key = case["policy"], case["mode"], case["precision"]
        setting = settings.setdefault(key, _Setting())
        setting.cases[case["suite"], case["level"], case["id"], case["sample"]] = case
        if head and head not in setting.heads:
            setting.heads.append(head)
    return settings


def _filled(line: Record, head: Record, number: int) -> CaseLine:
    """A case with the fields that an older record lacks, from the record of its run.

    Args:
        line: the record of the case.
        head: the record of the run, which precedes the case in the file.
        number: the place of the line in the file; a case without an id gets this number as its id.
    """
    options = head.get("options", {})
    defaults = {
        "suite": str(head.get("command", UNKNOWN)).removeprefix("eval "),
        "policy": head.get("policy") or options.get("policy") or UNKNOWN,
        "mode": options.get("mode") or UNKNOWN,
        "precision": options.get("precision") or UNKNOWN,
        "id": number,
        "sample": 0,
        "name": str(line.get("id", number)),
        "message": "",
    }
    return cast(CaseLine, defaults | line)


def _check(case: CaseLine, file: Path, number: int) -> None:
    """Check that a case has all fields of `TYPES`.

    Raises:
        UsageError: a field is missing, or its value has another type. The error names the line.
    """
    for name, kind in TYPES.items():
        value = case.get(name)
        if type(value) is not kind:
            message = f"{name!r} is {value!r}" if name in case else f"{name!r} is missing"
            remedy = f"mend or delete the line: the type of {name!r} must be {kind.__name__}"
            raise UsageError(message, file=str(file), line=number, remedy=remedy)


def _in_order(key: tuple[str, str, int, int]) -> tuple[str, int, str, int, int]:
    """The sort key of a case. The length of the level's name puts L5 before L20."""
    suite, level, number, sample = key
    return suite, len(level), level, number, sample


def _commits(cases: Sequence[CaseLine], heads: Sequence[Record]) -> tuple[str, ...]:
    """The commits in the records of the cases. If no case has a commit, the commits of the runs."""
    of_cases = dict.fromkeys(str(case["commit"]) for case in cases if case.get("commit"))
    of_runs = [head.get("environment", {}).get("commit") for head in heads]
    return tuple(of_cases) or tuple(dict.fromkeys(str(commit) for commit in of_runs if commit))
