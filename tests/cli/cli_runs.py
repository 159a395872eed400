"""Runs of the command line in this process, and what the fakes behind the command line return."""

import pytest
import verdicts

from kernelwright.cli.main import main
from kernelwright.core import record
from kernelwright.core.verdict import Code
from kernelwright.programs.record import program_record
from kernelwright.programs.text import parse

RELU = "    t0 = torch.relu(x0)\n    return [t0]\n"
TASK = (
    "import torch\n\n\ndef get_inputs():\n    return [torch.randn(4, 8)]\n\n\n"
    f"def fused_operator(x0):\n{RELU}"
)
NO_KERNEL = "def fused_operator(x0):\n    return [x0]\n"


def write_programs(path, *bodies, rows=(4,)):
    """A file of programs: one for each body and number of rows."""
    texts = (
        "import torch\n\n\n"
        f"def get_inputs():\n    x0 = torch.randn(({num}, 8), dtype=torch.float32)\n"
        f"    return [x0]\n\n\ndef fused_operator(x0):\n{body}"
        for body in bodies
        for num in rows
    )
    record.append(path, ({"record": "program", **program_record(parse(text))} for text in texts))
    return path


def exit_code(argv):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    return ended.value.code or 0


def verdict(accepted, message="all cases agree"):
    return verdicts.verdict(
        Code.OK if accepted else Code.WRONG_VALUES,
        message=message,
        mode="hybrid",
        device="cpu-interpreter",
        cases=("64x96 scaled 0",),
        isolation="rlimits",
    )
