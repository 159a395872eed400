"""`kernelwright doctor`: what works on this machine, and how to get the rest."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import JsonOption
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record, environment
from kernelwright.core.verdict import Verdict

REFERENCE = """\
import torch


def get_inputs():
    return [torch.randn(64, 96)]


def fused_operator(x0):
    t0 = torch.relu(x0)
    return [t0]
"""
CANDIDATE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size)
    tl.store(y_ptr + at, tl.maximum(x, 0.0), mask=at < size)


def fused_operator(x0):
    y = torch.empty_like(x0)
    size = x0.numel()
    relu_kernel[(triton.cdiv(size, 1024),)](x0, y, size, BLOCK=1024)
    return [y]
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    name: str
    works: bool
    found: str
    needed: bool = True
    """False: `optimize` and `verify` run without it."""
    remedy: str = ""


def command(json: JsonOption = False) -> None:
    """Check what works on this machine.

    The exit code is 0 where `optimize` and `verify` can run, else 3.
    """
    facts = environment()
    with progress("doctor") as say:
        checks = list(_checks(facts, say))
    if json:
        print_json({"environment": facts, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks)
    if not all(check.works for check in checks if check.needed):
        raise typer.Exit(3)


def _print(checks: list[Check]) -> None:
    table = Table(box=None, show_header=False)
    for check in checks:
        mark = Text("ok", "green") if check.works else Text("--", "red" if check.needed else "dim")
        table.add_row(mark, check.name, Text(check.found))
        if check.remedy and not check.works:
            table.add_row("", "", Text(check.remedy, "yellow"))
    out.print(table)


def _checks(facts: Record, say: Say) -> Iterator[Check]:
    say("packages")
    versions = facts["versions"]
    yield Check(name="python", works=sys.version_info >= (3, 11), found=facts["python"])
    yield _imports("torch", versions["torch"], "pip install 'torch>=2.11'")
    yield _imports("triton", versions["triton"], "pip install 'triton>=3.6' (Linux only)")
    has_cuda = _python("import torch; assert torch.cuda.is_available()") is None
    yield Check(
        name="gpu",
        works=has_cuda,
        found=facts["gpu"] or "none that nvidia-smi sees",
        needed=False,
        remedy="without a GPU kernels are checked in Triton's interpreter and compiled for sm_90,"
        " and speed is not measured; with one, install a CUDA build of torch",
    )
    for device in ("cpu", "cuda") if has_cuda else ("cpu",):
        say(f"a known good kernel on {device}")
        yield from _judge(device)


def _imports(module: str, version: str | None, remedy: str) -> Check:
    """Import in a process of its own: a broken install may abort, and torch is slow to load."""
    fault = None if version is None else _python(f"import {module}")
    works = version is not None and fault is None
    state = fault or version or "not installed"
    return Check(name=module, works=works, found=state, remedy=remedy)


def _python(code: str) -> str | None:
    """Last line of the error that `code` ends with; None where it runs."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _judge(device: str) -> Iterator[Check]:
    """Have the judge accept a known good kernel: the whole path a candidate takes."""
    from kernelwright.sandbox.host.probe import ESSENTIAL, GUARDS, isolation_level

    name = "interpreter, compile check" if device == "cpu" else "kernels on the GPU"
    try:
        level = isolation_level(device)
        refused = "; ".join(f"{guard} ({GUARDS[guard]})" for guard in level.missing)
        yield Check(
            name=f"sandbox ({device})",
            works=level.is_full,
            found=", ".join(level.held) or "none",
            needed=bool(ESSENTIAL & set(level.missing)),
            remedy=f"this kernel refuses {refused}" if refused else "",
        )
        verdict = _verdict_on_known_good(device)
    except KernelwrightError as error:
        yield Check(name=name, works=False, found=str(error))
        return
    outcome = (
        ", ".join(verdict.checks) if verdict.accepted else f"{verdict.code}: {verdict.message}"
    )
    yield Check(name=name, works=verdict.accepted, found=outcome)


def _verdict_on_known_good(device: str) -> Verdict:
    from kernelwright.sandbox.shared.own_folders import own_folder
    from kernelwright.verify.api import verify

    with own_folder("doctor") as folder:
        reference, candidate = folder / "reference.py", folder / "candidate.py"
        reference.write_text(REFERENCE)
        candidate.write_text(CANDIDATE)
        return verify(str(reference), candidate, device=device, precision="strict", mode="pure")
