"""KernelBench's static checker on the files of a corpus."""

import importlib.util
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from kernelwright.bench.judge.entries import CorpusEntry
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

CHECKER = Path("src", "kernelbench", "kernel_static_checker.py")
"""In a checkout of KernelBench."""


def read_by_kernelbench(checkout: Path, entries: Sequence[CorpusEntry]) -> list[Record]:
    """Records of kind `corpus_kernelbench`: the findings of the checker on each file.

    Args:
        checkout: a checkout of KernelBench. The checker is loaded from its own file.

    Raises:
        UsageError: the checkout does not have the checker.
    """
    checker = _load(checkout / CHECKER)
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    lines = []
    for entry in entries:
        precision = "fp16" if "half" in entry.facts["task"] else "fp32"
        text = entry.path.read_text(encoding="utf-8")
        is_valid, errors, warnings = checker.validate_kernel_static(
            text, backend="triton", precision=precision
        )
        answer = {"strict": not is_valid, "warned": bool(errors or warnings), "says": errors[:1]}
        lines.append({"record": "corpus_kernelbench", "commit": commit, **entry.head(), **answer})
    return lines


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernelbench_static_checker", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(
            "no KernelBench checkout", file=str(path), remedy="clone the public repository"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
