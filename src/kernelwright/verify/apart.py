"""Verdicts on references that are files or factories, from a child process.

The code of a reference can end or hang the process that runs it. So a child process loads and runs
references; this process waits, within limits. One child serves all calls, one after the other.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from kernelwright.core.errors import InfraError, KernelwrightError, UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.host import supervised

_lock = threading.Lock()


class _VerdictChild:
    """The process, started at its first use."""

    def __init__(self) -> None:
        self._process, self._reader = supervised.start(
            [sys.executable, "-P", "-m", "kernelwright.verify.apart"],
            stdin=subprocess.PIPE,
            env=supervised.import_path(),
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Record, say: Say) -> Record:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its end shows below
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        for message in supervised.messages(self._process, self._reader):
            if "progress" in message:
                say(str(message["progress"]))
            elif "answer" in message:
                answer: Record = message["answer"]
                return answer
        raise InfraError("the judging process gave no answer")

    def close(self) -> None:
        if self.is_alive:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._reader)


_children: list[_VerdictChild] = []


@atexit.register
def _close() -> None:
    while _children:
        _children.pop().close()


def verify_apart(request: Record, say: Say) -> Verdict:
    """Returns the verdict that `api.verify` gives for these arguments, in the child process.

    Args:
        request: keyword arguments of `api.verify`, as JSON.
        say: is told what the child does next.

    Raises:
        UsageError: the reference or an option is wrong; the reference ended its process, or did not
            return.
        InfraError: our side broke.
    """
    with _lock:
        if not _children or not _children[0].is_alive:
            _close()
            _children.append(_VerdictChild())
        try:
            answer = _children[0].ask(request, say)
        # An answer that comes late would be read as the answer to the next request.
        except BaseException:
            _close()
            raise
    if "verdict" in answer:
        return Verdict.from_json(answer["verdict"])
    if "usage" in answer:
        raise UsageError(**answer["usage"])
    raise InfraError(answer["failure"])


def serve() -> None:
    """Judges requests in the child process until the parent closes the pipe."""
    supervised.attach()
    from kernelwright.verify.api import verify

    for line in sys.stdin:
        request = json.loads(line)

        def say(text: str) -> None:
            supervised.tell({"progress": text})

        answer: dict[str, Any]
        try:
            answer = {"verdict": verify(**request, progress=say).to_json()}
        except UsageError as error:
            answer = {"usage": error.to_json()}
        except KernelwrightError as error:
            answer = {"failure": str(error)}
        supervised.tell({"answer": answer})
    supervised.done(0)


if __name__ == "__main__":
    serve()
