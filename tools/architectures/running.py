"""Measuring many architectures: one at a time, each in a child process with a limit of CPU time."""

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.record import Record
from tools.architectures.architecture import Architecture
from tools.architectures.measure import measure

NICENESS = 10
PACKAGES = ("kernelwright", "torch", "triton", "transformers", "timm", "diffusers", "torchvision")
"""Their versions stand in the run record."""


def measure_all(
    architectures: Iterable[Architecture],
    path: Path,
    missing: dict[str, str],
    *,
    limit_s: int,
    tell: Callable[[str], None],
) -> None:
    """Append a record for each architecture that the file does not have yet.

    Args:
        missing: library -> why its models are skipped.
        limit_s: CPU seconds of one architecture.
        tell: called with a line for each architecture.
    """
    done = {line.get("name") for line in record.read(path)} if path.exists() else set()
    run = {"record": "run", "environment": record.environment(PACKAGES), "limit_s": limit_s}
    if not path.exists() or run not in list(record.read(path)):
        record.append(path, [run])
    for library, reason in missing.items():
        tell(f"skipped: all models of {library}: {reason}")
    for architecture in architectures:
        if architecture.name in done or architecture.library in missing:
            continue
        case = measured(architecture, limit_s)
        record.append(path, [case])
        tell(f"{case['status']:8} {case['name']} {case['cpu_s']} {case.get('message', '')}")


def measured(architecture: Architecture, limit_s: int) -> Record:
    """The record of one architecture, measured in a child process.

    The child is forked: the libraries that this process has imported are there already. A child
    that exceeds the limit leaves its last record, with status "timeout"; one that dies otherwise
    has status "crash".
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(architecture, sender, limit_s))
    child.start()
    sender.close()
    case: Record = {}
    while True:
        try:
            case = receiver.recv()
        except EOFError:
            break
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        case |= {"status": "timeout", "message": f"over {limit_s} CPU seconds"}
    elif child.exitcode != 0:
        case |= {"status": "crash", "message": f"the process ended with {child.exitcode}"}
    return case


def _child(architecture: Architecture, sender: Connection, limit_s: int) -> None:
    torch.set_num_threads(1)  # the threads of the parent are not in a forked child
    os.nice(NICENESS)
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent_s = int(used.ru_utime + used.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (spent_s + limit_s, spent_s + limit_s + 5))
    with open(os.devnull, "w") as nowhere:  # what the libraries print
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        measure(architecture, sender.send)
