"""Runs attacks in processes of their own, so that one that harms its judge costs only that one."""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.sandbox.attacks.judging import Seen
from tests.sandbox.attacks.suite import ATTACKS

Say = Callable[[dict[str, Any]], None]
ROOT = Path(__file__).parents[3]
SILENCE_S = 75.0
"""A judge that says nothing for this long hangs."""
START_S = 240.0
MAX_BYTES = 6 << 30
"""A judge that takes more memory is ended, for others need the machine."""
_CODE = (
    "import sys, json; from pathlib import Path;"
    "from kernelwright.sandbox.confine import kernel; kernel.prctl(kernel.PR_SET_PDEATHSIG, 9);"
    "from tests.sandbox.attacks import suite; from tests.sandbox.attacks.judging import judge_in;"
    "[print(json.dumps(line), flush=True)"
    " for line in judge_in(sys.argv[1], sys.argv[3:], Path(sys.argv[2]))]"
)


def all_seen(names: Mapping[str, Sequence[str]], say: Say = lambda _: None) -> list[dict[str, Any]]:
    """What is seen of attacks; the grades are judged side by side.

    Args:
        names: of the attacks, by grade.
        say: called with what is seen of an attack, as soon as that is known.
    """

    def seen(grade: str) -> list[dict[str, Any]]:
        effects = []
        for line in seen_in(grade, names[grade]):
            say(line)
            effects.append(line)
        return effects

    with ThreadPoolExecutor(len(names)) as pool:
        return [line for lines in pool.map(seen, names) for line in lines]


def seen_in(grade: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What is seen of the attacks in one grade, in their order."""
    left = list(names)
    while left:
        with _Judging(grade, left) as judging:
            for line in judging.lines():
                left.remove(line["name"])
                yield line
            if left:  # the first one is to blame
                attack = ATTACKS[left.pop(0)]
                lost = Seen(name=attack.name, kind=attack.kind, grade=grade, outside=[judging.end])
                lost.seconds = round(time.monotonic() - judging.since_s, 2)
                yield lost.to_json()


class _Judging:
    """One process that judges attacks in a row.

    Raises:
        RuntimeError: it ends before the first attack.
    """

    def __init__(self, grade: str, names: list[str]) -> None:
        # a short path, for sockets have theirs in there; that of a test may be long
        self._place = tempfile.mkdtemp(prefix="attacks-")
        self._log = (Path(self._place) / "log").open("w+b")
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, grade, f"{self._place}/judging", *names],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self.since_s = time.monotonic()
        self.end = ""
        """Why it ended too early."""
        self._has_begun = False

    def __enter__(self) -> "_Judging":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
        # Python's own removal fails at folders that some attacks leave
        subprocess.run(["rm", "-rf", self._place], check=False)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it saw, attack by attack, until it is through, ends or is ended."""
        assert self._process.stdout is not None
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not self.end:
                if not selector.select(0.2):
                    self.end = self._harm()
                    continue
                read = os.read(self._process.stdout.fileno(), 1 << 16)
                if not read:
                    self.end = f"the host ended with {self._process.wait()}: {self._last_words()}"
                *whole, rest = (rest + read).split(b"\n")
                yield from self._results(whole)
        if not self._has_begun:
            raise RuntimeError(self.end)

    def _results(self, lines: list[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            message = json.loads(line.replace(self._place.encode(), b"<folder>"))
            self._has_begun = True
            if "begin" in message:
                self.since_s = time.monotonic()
            else:
                yield message

    def _harm(self) -> str:
        limit_s = SILENCE_S if self._has_begun else START_S
        if time.monotonic() - self.since_s > limit_s:
            return f"the host says nothing for {limit_s:g} s"
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        used = [int(line.split()[1]) << 10 for line in status.splitlines() if "VmRSS:" in line]
        if sum(used) > MAX_BYTES:
            return f"the host takes more than {MAX_BYTES >> 30} GiB"
        return ""

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-500:].decode(errors="replace").strip()
