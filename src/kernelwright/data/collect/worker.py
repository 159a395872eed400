"""The workers of a collection: each surveys files and takes modules apart, one after another.

A worker forks a child process for each module. It imports the modules of an installed package
itself, so that its children need not do so again. Before that a child has imported them unharmed.
"""

import os
from functools import partial
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.record import Record
from kernelwright.data.collect.classes import import_source, module_classes, survey
from kernelwright.data.collect.confined import confined
from kernelwright.data.collect.fragments import Parts
from kernelwright.data.collect.lowered import capture_class, capture_source
from kernelwright.data.collect.outcome import CollectOutcome, Refused
from kernelwright.data.collect.sources import CollectSource
from kernelwright.programs.lowering.lower import lower

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""Nothing that is collected may fetch weights."""


def collects(max_calls: int, levels: list[int], timeout_s: float) -> "CollectWorker":
    """A worker, made once in its process. The process then fetches nothing from model hubs and has
    one torch thread.

    Args:
        max_calls: the most calls of a program.
        levels: numbers of calls that are kept; all where empty.
        timeout_s: processor time for the import of one file, and for one module.
    """
    os.environ.update(_OFFLINE)
    torch.set_num_threads(1)  # threads do not survive the fork
    lower(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # loads what every child needs
    return CollectWorker(max_calls, levels, timeout_s)


class CollectWorker:
    """A worker that surveys sources and takes modules apart.

    A job is {"step": "survey", "source"} or {"step": "collect", "source", "class", "records"}.
    "records" is the file that the module's programs are written to. An answer has "outcome",
    "detail" and the findings.
    """

    def __init__(self, max_calls: int, levels: list[int], timeout_s: float) -> None:
        self.max_calls, self.levels, self.timeout_s = max_calls, levels, timeout_s

    def begin(self, job: Record) -> None:
        """Nothing to do beforehand."""

    def run(self, job: Record) -> Record:
        source = CollectSource(**job["source"])
        try:
            if job["step"] == "survey":
                survey_result = confined(partial(survey, source), self.timeout_s)
                answer = {"outcome": CollectOutcome.COLLECTED, "detail": "", **survey_result}
            else:
                if source.kind == "package":
                    import_source(source)
                work = partial(self._collect, source, job["class"], Path(job["records"]))
                answer = confined(work, self.timeout_s)
        except Refused as refused:
            answer = {"outcome": refused.outcome, "detail": refused.detail}
        return answer

    def close(self) -> None: ...

    def _collect(self, source: CollectSource, name: str | None, records: Path) -> Record:
        """Write the different programs of a module to a file, and return counts."""
        # The same draws in every child: otherwise values in a module could differ from run to run.
        torch.manual_seed(0)
        if name is None:
            captured = capture_source(source)
        else:
            classes = module_classes(import_source(source))
            captured = capture_class(next(c for c in classes if c.__qualname__ == name))
        parts = Parts(captured.program, self.max_calls, self.levels)
        programs = list(parts.records())
        record.rewrite(records, programs)  # whole or not at all: this process may be killed
        return {
            "outcome": CollectOutcome.COLLECTED if programs else CollectOutcome.NO_PROGRAMS,
            "detail": "",
            "arguments": captured.arguments,
            "inputs": captured.inputs,
            "calls": len(captured.program.calls),
            "parts": dict(sorted(parts.counts.items())),
        }
