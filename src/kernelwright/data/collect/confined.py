"""Runs foreign code in a child process, so that a crash or a hang costs one call.

Covered are time, memory, exit, signals, output, working directory and left-over processes. Hostile
code is not stopped: only collect from packages that you would import yourself.
"""

import json
import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

from kernelwright.core.record import Record
from kernelwright.data.collect.outcome import CollectOutcome, Refused, described
from kernelwright.sandbox.confine import kernel
from kernelwright.sandbox.shared.own_folders import own_folder

WALL_FACTOR = 10
"""Seconds that may pass for each second of processor time: who only waits is ended too."""
MEMORY_BYTES = 6 << 30
"""That a child may take beyond what its parent had."""
_FORK = multiprocessing.get_context("fork")
"""Children need not import the modules that the parent has imported."""


def confined(work: Callable[[], Record], timeout_s: float) -> Record:
    """Run `work` in a child process, and return its result, which goes through JSON.

    Args:
        timeout_s: processor time, which depends less than wall time on the machine's other work.

    Raises:
        Refused: `work` raised, took too long or too much memory, or its process died.
    """
    ours, theirs = _FORK.Pipe(duplex=False)
    with own_folder("collect") as folder:
        child = _FORK.Process(target=_child, args=(theirs, work, str(folder), math.ceil(timeout_s)))
        child.start()
        # The child's end must be open in the child alone: then the child's death ends the reading.
        theirs.close()
        try:
            if not ours.poll(WALL_FACTOR * timeout_s):
                raise Refused(CollectOutcome.TIMEOUT, "it waits")
            answer = json.loads(ours.recv_bytes())
        except EOFError as error:
            child.join(timeout=1.0)
            if child.exitcode == -signal.SIGXCPU:
                raise Refused(CollectOutcome.TIMEOUT, f"more than {timeout_s:g} s") from error
            raise Refused(CollectOutcome.CRASH, f"exit status {child.exitcode}") from error
        finally:
            ours.close()
            _end(child)
    if "refused" in answer:
        raise Refused(CollectOutcome(answer["refused"]), answer["detail"])
    result: Record = answer["result"]
    return result


def _end(child: ForkProcess) -> None:
    """Kill a child and all processes that it started: it leads their process group."""
    assert child.pid is not None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.join()


def _child(channel: Connection, work: Callable[[], Record], folder: str, cpu_s: int) -> None:
    os.setsid()
    # The thread that forked this process waits for its end, so that thread does not end before.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(folder)
    _be_quiet()
    # The parent's memory is the child's too after a fork, so the limit is above what is there.
    used_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGESIZE")
    limit = used_bytes + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel.send_bytes(json.dumps(_answer(work)).encode())
    os._exit(0)  # whatever foreign code registered to run at exit does not concern us


def _be_quiet() -> None:
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        null = os.open(os.devnull, flags)
        os.dup2(null, descriptor)
        os.close(null)


def _answer(work: Callable[[], Record]) -> Record:
    try:
        return {"result": work()}
    except Refused as refused:
        outcome = CollectOutcome.MEMORY if _is_memory(refused.detail) else refused.outcome
        return {"refused": outcome, "detail": refused.detail}
    except (Exception, SystemExit) as error:
        detail = described(error)
        outcome = CollectOutcome.MEMORY if _is_memory(detail) else CollectOutcome.UNEXPECTED
        return {"refused": outcome, "detail": detail}


def _is_memory(detail: str) -> bool:
    return any(sign in detail for sign in ("can't allocate memory", "MemoryError", "out of memory"))
