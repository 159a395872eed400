"""Runs of the command line in this process, and what the fakes behind the command line return."""

import pytest
import verdicts

from kernelwright.cli.main import main
from kernelwright.core.verdict import Code

TASK = (
    "import torch\n\n\ndef get_inputs():\n    return [torch.randn(4, 8)]\n\n\n"
    "def fused_operator(x0):\n    t0 = torch.relu(x0)\n    return [t0]\n"
)
NO_KERNEL = "def fused_operator(x0):\n    return [x0]\n"


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
