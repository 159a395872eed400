"""The other end of a `BenchWorker`: a process that answers each line of JSON with a line."""

import gc
import json
import os
import sys
from collections.abc import Callable

import torch

from kernelwright.core.record import Record


def serve(answer: Callable[[Record], Record], after: Callable[[], None] = lambda: None) -> None:
    """Answer jobs from stdin until it ends.

    Args:
        answer: makes the answer to a job.
        after: called after each job; the GPU's unused memory is given back then too.
    """
    # Whatever other code prints to stdout goes to stderr: it would be read as an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        reply = answer(json.loads(line))
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
        after()
        gc.collect()  # modules and their compiled forms refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
