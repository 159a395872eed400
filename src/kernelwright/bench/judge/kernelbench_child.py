"""Serves KernelBench's evaluator in a process of its own.

    python -m kernelwright.bench.judge.kernelbench_child

reads one JSON object a line, {"root": ..., "reference": ..., "kernel": ..., "trials": ...}, and
answers each with {"compiled", "correct", "issue"}.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.bench.serving import serve
from kernelwright.core.record import Record

UNUSED = ("requests", "dotenv", "tqdm", "openai", "litellm")
"""Modules that KernelBench imports for asking models and fetching data, not for evaluating."""
ISSUE_LIMIT = 500
ISSUES = ("compilation_error", "runtime_error", "correctness_issue")
"""Keys of its metadata."""


def evaluate(job: Record) -> Record:
    """The result of `eval_kernel_against_ref`, correctness alone, in fp32."""
    evaluator = _evaluator(Path(job["root"]))
    result = evaluator.eval_kernel_against_ref(
        Path(job["reference"]).read_text(encoding="utf-8"),
        Path(job["kernel"]).read_text(encoding="utf-8"),
        num_correct_trials=job["trials"],
        measure_performance=False,
        device=torch.device("cuda:0"),
        backend="triton",
        precision=torch.float32,
    )
    if result is None:
        return {"compiled": False, "correct": False, "issue": "no result"}
    issues = [f"{name}: {result.metadata[name]}" for name in ISSUES if name in result.metadata]
    return {
        "compiled": result.compiled,
        "correct": result.correctness,
        "issue": "; ".join(issues)[:ISSUE_LIMIT],
    }


def _evaluator(root: Path) -> Any:
    """The module `kernelbench.eval` of a checkout. Packages that are missing, and that evaluation
    does not use, are replaced by empty stand-ins."""
    folder = str(root / "src")
    if folder not in sys.path:
        sys.path.insert(0, folder)
        for name in UNUSED:
            if importlib.util.find_spec(name) is None:
                sys.modules[name] = _Unused(name)
    return importlib.import_module("kernelbench.eval")


class _Unused(ModuleType):
    """Stands for a package that is not installed: all its functions do nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


if __name__ == "__main__":
    serve(evaluate)
