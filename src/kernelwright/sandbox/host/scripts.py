"""Runs whole scripts of other people, confined as guests are, and returns exit code and output.

A script is one process. It has the namespaces, the system call filter, Landlock and the limits of a
guest (`confine.guards`). The exit code comes from the kernel. Nothing else that a script says is
believed: its printed text is compared as bytes.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kernelwright.core.errors import InfraError
from kernelwright.sandbox.host.forkserver import environment_of, package_folders
from kernelwright.sandbox.shared import own_folders, removal
from kernelwright.sandbox.shared.contract import GIB
from kernelwright.sandbox.shared.starting import ERRORS, OUTPUT, SCRATCH

MAX_OUTPUT_BYTES = 1 << 24
"""The most bytes of a script's output that are read."""
MEMORY_BYTES = 8 * GIB
"""The address space of a script, on a CPU."""
_START_S, _ANSWER_S = 120.0, 60.0
_END_S = 5.0
_TAIL_BYTES = 4_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptOutcome:
    """How a script ended."""

    code: int | None
    """Exit code; negative: the signal that ended the script; None: its time was over."""
    stdout: bytes
    """At most `MAX_OUTPUT_BYTES`."""
    stderr: str
    """The end of it."""
    seconds: float


class ScriptRunner:
    """Runs scripts one after the other. A context manager; its process starts with the first one.

    Args:
        device: "cpu" (Triton's interpreter) or "cuda".
        gpu: the GPU that scripts see, as in `CUDA_VISIBLE_DEVICES`; "": all GPUs.
    """

    def __init__(self, device: str, gpu: str = "") -> None:
        self._device, self.gpu = device, gpu
        self._process: subprocess.Popen[str] | None = None
        self._root: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()
        if self._root is not None:
            own_folders.remove(self._root)
            self._root = None

    def run(self, text: str, wall_s: float, name: str = "script.py") -> ScriptOutcome:
        """Run a script to its end, or for `wall_s` seconds.

        Args:
            name: of its file, a name without a folder.

        Raises:
            InfraError: the process that forks scripts cannot be started, or has ended.
        """
        process = self._started()
        assert self._root is not None
        folder = Path(tempfile.mkdtemp(dir=self._root, prefix="script-"))
        try:
            (folder / SCRATCH).mkdir()
            (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
            order = {
                "folder": str(folder),
                "name": name,
                "wall_s": wall_s,
                "cpu_s": int(wall_s) + 60,
                "memory_bytes": MEMORY_BYTES,
            }
            answer = self._ask(process, order, wall_s + _ANSWER_S)
            return ScriptOutcome(
                code=answer["code"],
                stdout=_read(folder / OUTPUT),
                stderr=_read(folder / ERRORS)[-_TAIL_BYTES:].decode(errors="replace"),
                seconds=answer["seconds"],
            )
        finally:
            removal.remove(folder)

    def _ask(
        self, process: "subprocess.Popen[str]", order: dict[str, Any], within_s: float
    ) -> dict[str, Any]:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer says so
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        answer = self._answer(process, within_s)
        if "failure" in answer:
            raise InfraError(f"a script cannot be started: {answer['failure']}")
        return answer

    def _answer(self, process: "subprocess.Popen[str]", within_s: float) -> dict[str, Any]:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], within_s)
        line = process.stdout.readline() if readable else ""
        if line:
            return dict(json.loads(line))
        log = self._log.read_text(errors="replace")[-_TAIL_BYTES:]
        self._end()
        raise InfraError(f"the process that runs scripts has ended:\n{log}")

    @property
    def _log(self) -> Path:
        assert self._root is not None
        return self._root / "server.log"

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is not None:
            return self._process
        if self._root is None:
            self._root = own_folders.make("scripts")
            (self._root / "temporary").mkdir()
        code = (
            f"import sys; sys.path[:0] = {package_folders()!r}; "
            "from kernelwright.sandbox.guest.scripts import main; "
            f"main({self._device!r}, {os.getpid()})"
        )
        environment = environment_of(self._device, self._root / "temporary")
        if self.gpu:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                cwd=self._root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._answer(self._process, _START_S)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()


def _read(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(MAX_OUTPUT_BYTES)
