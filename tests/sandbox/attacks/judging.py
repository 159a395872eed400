"""Judges hostile candidates in this process, and looks at the rest of the machine after each.

In the grade `recycled` others follow in the same judge: one that is right, one that is wrong, a
module that tells the state of its process, and one that is right.
"""

import inspect
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.task import Task
from tests.sandbox.attacks import reporter
from tests.sandbox.attacks.attack import ATTACKS, HONEST, WRONG, Attack
from tests.sandbox.attacks.canaries import Canaries
from tests.sandbox.attacks.prelude import __file__ as prelude_file

WALL_S, SHORT_WALL_S = 20.0, 3.0
"""Limits of a request; the second is for attacks that wait for it."""
SLOW_S = 20.0
"""A verdict that takes longer is an effect on the host. Usual are 0.5 s to 6 s."""
MUCH_BYTES = 1 << 30
LONG_VERDICT = 100_000
"""Characters of a verdict as JSON. That of an honest candidate has 3000."""
MANY = 10**9
"""Launches that no call makes."""
SETTLE_S = 10.0
"""Processes may take this long to be gone."""

_TELLING = """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.nn.Linear(1, 1)

    def forward(self, x0):
        reported(Announced)
        return relu(x0)
"""
_AFTER = ("right", "wrong", "state", "right again")
REFERENCE = '''
import torch


class Model(torch.nn.Module):
    def forward(self, x0):
        """REFERENCE_OF_THE_CANARY"""
        return torch.relu(x0)


def get_inputs():
    return [torch.randn((37, 100))]


def get_init_inputs():
    return []
'''
PROGRAM = """
import torch


def get_inputs():
    x0 = torch.randn((37, 100), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.relu(x0)
    return [t0]
"""


@dataclass(kw_only=True, slots=True)
class Seen:
    """One attack in one grade, as it looks from outside."""

    name: str
    kind: str
    grade: str
    code: str = ""
    """The code of the verdict; empty where there is no verdict."""
    message: str = ""
    is_void: bool = False
    """The attack found nothing to take hold of."""
    outside: list[str] = field(default_factory=list)
    """Effects on the host and on the rest of the machine."""
    after: list[str] = field(default_factory=list)
    """Effects on the candidates that follow in the same judge."""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Arena:
    """What all attacks of one process share: tasks, canaries, and what is usual.

    Args:
        folder: an empty one, outside the folder of temporary files.
    """

    def __init__(self, grade: str, folder: Path, canaries: Canaries) -> None:
        self.grade, self._canaries = grade, canaries
        self._tasks = [_task(folder, "program", PROGRAM), _task(folder, "model", REFERENCE)]
        self._state: dict[str, Any] = {}
        usual = Seen(name="none", kind="", grade=grade)
        self._judge(None, usual)  # starts the servers
        if grade == "recycled":
            self._judge(None, usual)
        self._processes, self._places = processes(), places()
        if usual.outside or usual.after:
            raise RuntimeError(f"without any attack there are effects: {usual}")

    def seen(self, attack: Attack) -> Seen:
        """The attack, judged, and its effects."""
        seen = Seen(name=attack.name, kind=attack.kind, grade=self.grade)
        _forget_peak()
        memory, shared, begin_s = _peak_bytes(), _shared_bytes(), time.monotonic()
        self._judge(attack, seen)
        seen.seconds = round(time.monotonic() - begin_s, 2)
        if seen.seconds > SLOW_S:
            seen.outside.append(f"the verdict takes more than {SLOW_S:g} s")
        if (grown := _peak_bytes() - memory) > MUCH_BYTES:
            seen.outside.append(f"the host takes {grown / MUCH_BYTES:.1f} GiB more")
        seen.outside += self._canaries.changes() + self._remains(shared + (MUCH_BYTES >> 2))
        return seen

    def _judge(self, attack: Attack | None, seen: Seen) -> None:
        limits = Limits(wall_s=SHORT_WALL_S if attack and attack.hangs else WALL_S)
        reads = attack is not None and attack.reads_source
        task = self._tasks[attack is not None and attack.is_module]
        source = HONEST if attack is None else attack.source(self._canaries.facts)
        pairs = [(task, source)]
        if self.grade == "recycled" and not reads:  # the state is told by what the rules refuse
            pairs += [(self._tasks[0], text) for text in (HONEST, WRONG)]
            pairs += [(self._tasks[1], _state_text()), (self._tasks[0], HONEST)]
        try:
            with Judge(
                JudgeOptions(
                    device="cpu",
                    grade=self.grade,
                    budget_s=5.0,
                    seed=7,
                    checks="all" if reads else "runs",
                ),
                limits=limits,
            ) as judge:
                self._judge_all(judge, pairs, seen)
        except Exception as error:
            seen.outside.append(f"the judge does not close: {type(error).__name__}: {error}"[:200])

    def _judge_all(self, judge: Judge, pairs: Sequence[tuple[Task, str]], seen: Seen) -> None:
        """The hostile candidate first; where the host fails at one, it goes on with the next."""
        left, number = list(pairs), 0
        while left:
            candidates = [(task, Candidate(source=text)) for task, text in left]
            try:
                for verdict in judge.verify_many(candidates):
                    self._note(number, verdict, seen)
                    number += 1
            except Exception as error:
                text = f"{type(error).__name__}: {error}".splitlines()[0]
                self._note_failure(number, _plain(text)[:200], seen)
                number += 1
            left = list(pairs)[number:]

    def _note(self, number: int, verdict: Verdict, seen: Seen) -> None:
        if number == 0:
            seen.code, seen.message = verdict.code.value, _plain(verdict.message)[:200]
            text = " ".join((verdict.message, *verdict.advice))
            seen.is_void = "VoidAttack" in text
            seen.outside += _effects_of_text(verdict)
            if self._canaries.is_told(text):
                seen.outside.append(f"the verdict tells: {seen.message}")
            return
        name = _AFTER[number - 1]
        if name == "state":
            seen.after += self._differences(verdict)
            return
        wanted = "wrong_values" if name == "wrong" else "ok"
        if verdict.code.value != wanted:
            message = _plain(verdict.message)[:100]
            seen.after.append(f"{name}: {verdict.code.value} ({message})")

    def _note_failure(self, number: int, text: str, seen: Seen) -> None:
        if number == 0:
            seen.outside.append(f"no verdict: {text}")
        else:
            seen.after.append(f"{_AFTER[number - 1]}: no verdict: {text}")

    def _differences(self, verdict: Verdict) -> list[str]:
        """What the telling candidate finds otherwise than without an attack."""
        texts = {"": verdict.message, "compiler: ": "".join(verdict.advice)}
        found = []
        for place, text in texts.items():
            try:
                state = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
            except ValueError:
                found.append(f"{place}no state: {verdict.code.value} ({_plain(text)[:100]})")
                continue
            usual = self._state.setdefault(place, state)
            found += [f"{place}another {key}" for key in usual if state.get(key) != usual[key]]
        return found

    def _remains(self, most_shared_bytes: int) -> list[str]:
        """Processes, memory and folders that are still there, after a while."""
        _settled(lambda: processes() <= self._processes)
        remains = []
        if (count := processes()) > self._processes:
            names = ", ".join(sorted(map(process_name, descendants())))
            remains.append(f"{count} processes, before {self._processes}: {names}")
            self._processes = count
        if not _settled(lambda: _shared_bytes() <= most_shared_bytes):
            remains.append("memory without a process stays")
        if left := places() - self._places:
            remains.append(f"{len(left)} places of temporary files stay")
            self._places |= left
        return remains


def _settled(is_settled: Callable[[], bool]) -> bool:
    """Whether this becomes true within a while: processes end one after the other."""
    end_s = time.monotonic() + SETTLE_S
    while not is_settled():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


def judge_in(grade: str, names: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """What is seen of each attack; before each, {"begin": its name}."""
    tempfile.tempdir = str(folder / "temporary")
    Path(tempfile.tempdir).mkdir(parents=True)
    (folder / "canaries").mkdir()
    with Canaries(folder / "canaries") as canaries:
        arena = Arena(grade, folder, canaries)
        for name in names:
            yield {"begin": name}
            yield arena.seen(ATTACKS[name]).to_json()


def _task(folder: Path, name: str, text: str) -> Task:
    path = folder / f"{name}.py"
    path.write_text(text)
    return load_task(path)


def _state_text() -> str:
    texts = [Path(prelude_file).read_text(), _without_imports(inspect.getsource(reporter))]
    return "\n".join((*texts, _TELLING))


def _without_imports(text: str) -> str:
    """Attacks are no modules where a candidate runs."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("from tests."))


def _effects_of_text(verdict: Verdict) -> list[str]:
    text = json.dumps(verdict.to_json(), ensure_ascii=False)
    found = []
    if len(text) > LONG_VERDICT:
        found.append("the verdict has more than 100 000 characters")
    texts = "".join(_texts_in(verdict.to_json()))
    if any("\ud800" <= character <= "\udfff" for character in texts):
        found.append("the verdict has half characters")
    if not texts.replace("\n", "").replace("\t", "").isprintable() and texts != _plain(texts):
        found.append("the verdict has codes of a terminal")
    if not all(0 <= count < MANY for count in verdict.launches.values()):
        found.append("the verdict has a count of launches that is no count")
    return found


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (str(key), *_texts_in(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def _plain(text: str) -> str:
    """Without characters that a terminal obeys or that are no characters."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


# -- the machine


def processes() -> int:
    """Descendants of this process that live."""
    return len(descendants())


def descendants() -> list[int]:
    """The process ids of the descendants.

    Each process names its parent. The kernel's own lists of children leave out living children
    while one of them ends, so a count of those lists may be too small.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            parent = path.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(path.parent.name))
    pids, todo = list[int](), [os.getpid()]
    while todo:
        born = children.get(todo.pop(), [])
        pids += born
        todo += born
    return pids


def process_name(pid: int) -> str:
    """The name and the state of a process, for messages: "python sleeping"."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "a process that has just ended"
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return f"{fields['Name'].strip()} {fields['State'].strip().partition('(')[2].rstrip(')')}"


def places() -> set[str]:
    """Folders and files among the temporary ones, down to those of guests."""
    root = Path(tempfile.gettempdir())
    return {str(path.relative_to(root)) for path in (*root.glob("*"), *root.glob("*/*"))}


def status_bytes(path: str, name: str) -> int:
    for line in Path(path).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0


def _peak_bytes() -> int:
    return status_bytes("/proc/self/status", "VmHWM")


def _forget_peak() -> None:
    """From now on the peak is that of what follows."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak so far counts then


def _shared_bytes() -> int:
    """Shared memory of the machine that no process holds, and no file. Other tests share memory
    among their processes meanwhile."""
    files = os.statvfs("/dev/shm")
    held = (files.f_blocks - files.f_bfree) * files.f_frsize
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            held += status_bytes(str(process / "smaps_rollup"), "Pss_Shmem")
            if "/dev/shm/" in (process / "maps").read_text():
                held -= _mapped_file_bytes(process)
    return status_bytes("/proc/meminfo", "Shmem") - held


def _mapped_file_bytes(process: Path) -> int:
    """The process's share of files in /dev/shm, which count as files already."""
    num_bytes, is_file = 0, False
    for line in (process / "smaps").read_text().splitlines():
        if "-" in line.partition(" ")[0]:  # the addresses of the next mapping
            is_file = "/dev/shm/" in line
        elif is_file and line.startswith("Pss:"):
            num_bytes += int(line.split()[1]) << 10
    return num_bytes
