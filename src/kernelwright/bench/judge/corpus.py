"""Judges a folder of cheats and of odd but honest kernels, and writes a record for every file.

The folder holds `cheats/`, `honest/` and `tasks/`, the first two with folders by kind. A file's
facts are the `# key: value` lines it begins with: `task`, `mode` (pure unless said), `contract`
(fixed unless said), `device: cuda` where it needs a GPU, `large: yes` where it needs the case
beyond 2^31 elements, a cheat's `exploit` or `kind`, and an honest kernel's `what`.
"""

import importlib.util
import multiprocessing
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.commits import with_commits
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.kinds.suites import CorpusRunLine
from kernelwright.core.progress import Say
from kernelwright.core.record import Record

if TYPE_CHECKING:
    from kernelwright.verify.judge import Judge
    from kernelwright.verify.judging import JudgeOptions

CHECKER = Path("src", "kernelbench", "kernel_static_checker.py")
"""In a checkout of KernelBench."""
KINDS = ("cheats", "honest")
CALL_S = 30.0
"""Limit of a request to a guest. The tasks are small, and other judges wait for the GPU while a
cheat does not answer."""


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One file of the corpus."""

    root: Path
    kind: str
    """"cheats" or "honest"."""
    path: Path
    facts: dict[str, str]

    @property
    def task(self) -> Path:
        return self.root / "tasks" / f"{self.facts['task']}.py"

    @property
    def name(self) -> str:
        """Path below the folder of its kind, without the ending."""
        return self.path.relative_to(self.root / self.kind).with_suffix("").as_posix()

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name, as in the records."""
        return self.kind, self.name

    @property
    def exploit(self) -> str:
        """ "E01" to "E77"; "" for an honest kernel."""
        return self.facts.get("exploit", "")

    @property
    def needs_gpu(self) -> bool:
        return self.facts.get("device") == "cuda"

    def head(self) -> Record:
        about = self.facts.get("how") or self.facts.get("what", "")
        return {"kind": self.kind, "name": self.name, "exploit": self.exploit, "about": about}


def facts(path: Path) -> dict[str, str]:
    """The `# key: value` lines a file begins with."""
    facts = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        facts[key] = value
    return facts


def read_corpus(root: Path) -> list[CorpusEntry]:
    """All files of a corpus, cheats first, sorted by path.

    Raises:
        UsageError: there is no file, or a file names no task of the corpus.
    """
    entries = [
        CorpusEntry(root, kind, path, facts(path))
        for kind in KINDS
        for path in sorted((root / kind).rglob("*.py"))
    ]
    if not entries:
        raise UsageError(
            "no corpus here", file=str(root), remedy="name a folder with cheats/, honest/, tasks/"
        )
    for entry in entries:
        if "task" not in entry.facts or not entry.task.is_file():
            raise UsageError(
                "names no task of the corpus",
                file=str(entry.path),
                remedy="begin with a line `# task: NAME`, a file in tasks/",
            )
    return entries


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusPlan:
    """The settings of a run over a corpus."""

    root: Path
    out: Path
    """JSONL, whose files are not judged again."""
    device: str = "auto"
    jobs: int = 1
    """Judges at once; what is timed still has the GPU alone."""
    grade: str = "fresh"
    """Under "recycled" each judge's guests go from file to file."""
    checks: str = "all"
    """The checks that may refuse a file (`core.verdict.Checks`)."""
    kernelbench: Path | None = None
    """A checkout of KernelBench, whose static checker reads the same files."""
    deadline_s: float = float("inf")
    """On the monotonic clock; files not begun by then are left for the next run."""


def run_corpus(plan: CorpusPlan, say: Say) -> list[Record]:
    """Judge every file that the device can judge.

    Records are written to `plan.out` as they come, and at the end again in the corpus's order. A
    file that our side failed to judge is judged again when the run is resumed.

    Returns:
        All records, with the run's head first.

    Raises:
        UsageError: the corpus, the device or the checkout is not there, or `plan.out` was begun
            with other settings.
        InfraError: a judging process died.
    """
    import torch

    entries = read_corpus(plan.root)
    device = plan.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device", remedy="use --device cpu")
    head: Record = {"record": "run", "command": "eval corpus", "device": device}
    head |= {"grade": plan.grade, "checks": plan.checks}
    wanted = [entry for entry in entries if device == "cuda" or not entry.needs_gpu]
    theirs = _read_by_kernelbench(plan.kernelbench, entries) if plan.kernelbench else []
    cases = _begun(plan.out, head)
    record.begin(plan.out, head | {"cases": len(wanted)})
    settled = {key for key, case in cases.items() if case["code"] != "infra"}
    _judge_all([entry for entry in wanted if entry.key not in settled], device, plan, say)
    cases = _begun(plan.out, head)
    begun = next(record.of_kind(record.read(plan.out), CorpusRunLine))
    ordered = [cases[entry.key] for entry in wanted if entry.key in cases]
    lines = [cast(Record, begun) | {"cases": len(wanted)}, *theirs, *ordered]
    record.rewrite(plan.out, lines)
    return lines


def _begun(path: Path, head: Record) -> dict[tuple[str, str], Record]:
    """Kind and name of a file -> the last record of the file.

    A record has its own commit where the commit is not that of the first environment, because the
    file is written anew in the order of the corpus.

    Raises:
        UsageError: the file of records was begun with other settings.
    """
    record.cut_torn_line(path)
    lines = list(record.read(path)) if path.exists() else []
    if not lines:
        return {}
    record.check_same(lines[0], head, str(path), remedy="give another file with --out")
    (_, first), *_ = committed = list(with_commits(lines))
    return {
        (line["kind"], line["name"]): line | ({"commit": commit} if commit != first else {})
        for line, commit in committed
        if line["record"] == "corpus_case"
    }


def is_right(case: Record) -> bool:
    """Whether a cheat was stopped or an honest kernel accepted. A failure of ours is not right."""
    wanted: bool = case["kind"] == "honest"
    return case["code"] != "infra" and case["accepted"] is wanted


def _judge_all(entries: Sequence[CorpusEntry], device: str, plan: CorpusPlan, say: Say) -> None:
    """Judge entries, and write their records as they come.

    Judging processes are spawned, not forked: CUDA cannot be used in a fork of a process that has
    initialised it.

    Raises:
        InfraError: a judging process died.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(plan.jobs, mp_context=context) as pool:
        try:
            waiting = [
                pool.submit(_judge, entry, device, plan.grade, plan.checks) for entry in entries
            ]
            judged = (done for done in as_completed(waiting) if not done.cancelled())
            for number, done in enumerate(judged, 1):
                line = _result(done)
                record.append(plan.out, [line])  # an interruption loses nothing
                say(f"{number}/{len(entries)} {line['name']}: {line['stage']}/{line['code']}")
                if time.monotonic() >= plan.deadline_s:
                    for other in waiting:
                        other.cancel()
        except KeyboardInterrupt:  # the pool would wait for the files that are being judged
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:  # else the pool judges all other files before an error ends it
            pool.shutdown(cancel_futures=True)


def _result(done: "Future[Record]") -> Record:
    try:
        return done.result()
    except InfraError:
        raise
    except Exception as error:
        raise InfraError(f"a judging process broke: {error}") from error


@cache
def _judge_of(judging: "JudgeOptions", large: bool) -> "Judge":
    """The judge of this process for all files with these settings, until the process ends."""
    import torch

    from kernelwright.verify.judge import Judge

    torch.set_num_threads(1)
    return Judge(judging, large=large, trusted=False)


def _judge(entry: CorpusEntry, device: str, grade: str, checks: str) -> Record:
    """The record of one file, made in a process of the pool. If our side fails, it is tried once
    more."""
    from kernelwright.verify.judging import JudgeOptions
    from kernelwright.verify.tasks.load import load_task

    begin_s = time.monotonic()
    candidate = Candidate(source=entry.path.read_text(encoding="utf-8"), origin="file")
    judging = JudgeOptions(
        device=device,
        mode=entry.facts.get("mode", "pure"),
        contract=entry.facts.get("contract", "fixed"),
        grade=grade,
        checks=checks,
        wall_s=CALL_S,
    )
    judge = _judge_of(judging, entry.facts.get("large") == "yes")
    for attempt in range(2):
        try:
            verdict = judge.verify(load_task(entry.task, judge.rules.device), candidate)
            break
        except UsageError as error:
            return _without_verdict(entry, "usage", error)
        except InfraError as error:
            if attempt:
                return _without_verdict(entry, "infra", error)
    is_surprising = verdict.accepted != (entry.kind == "honest")
    return {
        "record": "corpus_case",
        **entry.head(),
        "mode": judging.mode,
        "contract": judging.contract,
        "device": verdict.device,
        "grade": verdict.grade,
        "accepted": verdict.accepted,
        "stage": verdict.stage.value,
        "code": verdict.code.value,
        **({"message": verdict.message} if is_surprising else {}),
        "cases": len(verdict.cases),
        "seconds": round(time.monotonic() - begin_s, 2),
    }


def _without_verdict(entry: CorpusEntry, code: str, error: Exception) -> Record:
    """The record of a file without a verdict.

    Args:
        code: "usage": the task was refused; "infra": our side failed.
    """
    ours = {"accepted": False, "stage": code, "code": code, "message": f"{error}"}
    return {"record": "corpus_case", **entry.head(), **ours}


def _read_by_kernelbench(checkout: Path, entries: Sequence[CorpusEntry]) -> list[Record]:
    """The findings of KernelBench's static checker, which is loaded from its own file.

    `strict`: whether it refuses the file. `warned`: whether it refuses the file or warns of it.
    """
    checker = _load(checkout / CHECKER)
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    lines = []
    for entry in entries:
        precision = "fp16" if "half" in entry.facts["task"] else "fp32"
        text = entry.path.read_text(encoding="utf-8")
        is_valid, errors, warnings = checker.validate_kernel_static(
            text, backend="triton", precision=precision
        )
        said = {"strict": not is_valid, "warned": bool(errors or warnings), "says": errors[:1]}
        lines.append({"record": "corpus_kernelbench", "commit": commit, **entry.head(), **said})
    return lines


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernelbench_static_checker", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(
            "no KernelBench checkout", file=str(path), remedy="clone the public repository"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
