"""One step of a case in a process of its own.

    python -m kernelwright.bench.models.child

reads a JSON object from each line, with the fields of `ModelStep`. The answer to each object is a
JSON object with the figures of the step, or {"failed": why}.
"""

import gc
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.bench.models.blocks import distinct_blocks
from kernelwright.bench.models.measuring import beside_others, measure, search, without_caches
from kernelwright.bench.models.tensors import changed
from kernelwright.bench.models.zoo import ModelCall, model_named
from kernelwright.bench.serving import serve
from kernelwright.bench.suite import MEMORY
from kernelwright.compile.backend import Compiler
from kernelwright.compile.searching import LibraryFinder
from kernelwright.compile.settings import NOW, OFF, BackendSettings
from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record
from kernelwright.search.contest.side_by_side import MESSAGE_LIMIT

BLOCKS, SEARCH, MEASURE = "blocks", "search", "measure"
"""Steps, in their order: list the distinct blocks; search, which fills the library; measure with
the kernels of the library. Each step has a process of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStep:
    """A step, and the call of a model on which the step works."""

    step: str
    """`BLOCKS`, `SEARCH` or `MEASURE`."""
    model: str
    """Name for `zoo.model_named`."""
    is_small: bool
    dtype: str
    """Name of a dtype of torch, "float32" for example."""
    phase: str
    batch: int
    block: str | None
    """Path of a block in the model, as `Block.name`; None: the whole model."""
    device: str
    """"cpu" or "cuda"."""
    library: str
    """Folder of the library of kernels."""
    budget_s: float
    """Seconds of search for each graph."""


def answer(job: ModelStep) -> Record:
    """The figures of a step; {"failed": why, "code": reason code} if the model or the backend
    raises an exception."""
    try:
        return _facts(job)
    except Exception as error:  # whatever a model raises
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return {"failed": text[:MESSAGE_LIMIT], "code": _code(error)}


def _code(error: Exception) -> str:
    """The reason code of a step that raised an exception, one of the codes of `eval
    kernelbench`."""
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error):
        return MEMORY
    return "infra" if isinstance(error, InfraError) else "usage"


def _facts(job: ModelStep) -> Record:
    device = torch.device(job.device)
    if device.type == "cpu":  # kernels run here as in the judge's guests, bfloat16 included
        from kernelwright.sandbox.guest.interpreter import patches  # imports Triton

        patches.install()
    model = model_named(job.model, is_small=job.is_small)
    with beside_others(device):
        call = model.call(job.phase, job.batch, getattr(torch, job.dtype), device)
        if job.step == BLOCKS:
            return {"blocks": [block.facts for block in distinct_blocks(call)]}
        if job.block is not None:
            call = _block_named(job.block, call)
    gc.collect()  # modules of other blocks may refer to each other in a circle
    settings = BackendSettings(
        budget_s=job.budget_s, search=NOW if job.step == SEARCH else OFF, library=Path(job.library)
    )
    compiler = Compiler(settings, finder=LibraryFinder(device.type), device_types=(device.type,))
    with without_caches():
        if job.step == SEARCH:
            return search(call, compiler)
        # The assignment frees the call on the GPU, which has no room for a second copy.
        call = changed(call, torch.device("cpu"))
        gc.collect()
        return measure(call, compiler, device)


def _block_named(name: str, call: ModelCall) -> ModelCall:
    return next(block.call for block in distinct_blocks(call) if block.name == name)


if __name__ == "__main__":
    serve(lambda line: answer(ModelStep(**line)), after=torch.compiler.reset)
