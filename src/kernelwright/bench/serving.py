"""The other end of a `BenchWorker`: a process that answers each line of JSON with a line."""

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable

import torch

from kernelwright.bench.worker import ANSWER, IS_LAST
from kernelwright.core.record import Record
from kernelwright.sandbox.confine import orphaned


def serve(answer: Callable[[Record], Record], after: Callable[[], None] = lambda: None) -> None:
    """Answer jobs from stdin until it ends. The process ends with its parent, whose process id is
    the first argument of the command line.

    An error on a GPU may break the CUDA context for good. The process then gives its answer and
    ends, so that the next job gets a process with a new context.

    Args:
        answer: makes the answer to a job.
        after: called after each job; the GPU's unused memory is given back then too.
    """
    orphaned.end_with_parent(int(sys.argv[1]))
    # Whatever other code prints to stdout goes to stderr: it would be read as an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        reply = answer(json.loads(line))
        # Before the reply: the parent must know whether this process can take another job.
        is_last = not _is_cleaned(after)
        answers.write(json.dumps({ANSWER: reply, IS_LAST: is_last}) + "\n")
        answers.flush()
        if is_last:
            return


def _is_cleaned(after: Callable[[], None]) -> bool:
    """Free the memory of a job; return whether that succeeded."""
    try:
        after()
        gc.collect()  # modules and their compiled forms refer to each other
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()  # raises the errors of all earlier calls
            torch.cuda.empty_cache()
    except Exception:  # whatever a broken CUDA context raises
        traceback.print_exc()
        return False
    return True
