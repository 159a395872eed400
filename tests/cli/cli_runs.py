"""Runs of the command line in this process, and the records and a verdict of a short run for the
fakes behind the command line."""

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


RECORDS = [
    {
        "record": "run",
        "command": "optimize",
        "target": "model.py",
        "options": {"device": "auto"},
        "environment": {"python": "3.11.7", "versions": {}, "gpu": None, "commit": None},
        "device": "cpu-interpreter",
        "seconds": 1.5,
    },
    {
        "record": "program",
        "text": "",
        "calls": [
            {
                "op": op,
                "family": family,
                "extern": False,
                "inputs": ["x0"],
                "outputs": [output],
                "shapes": [[64, 96]],
                "flops": 1000,
                "bytes": 2000,
                "fragment": 0,
            }
            for op, family, output in (("linear", "matrix", "t0"), ("gelu", "pointwise", "t1"))
        ],
        "flops": 2000,
        "bytes_unfused": 4000,
    },
    {
        "record": "fragment",
        "id": 0,
        "calls": [0, 1],
        "ops": ["linear", "gelu"],
        "family": "matmul",
        "winner": "matmul",
        "reason": "fewer launches",
        "source": "pass",
        "plan": [],
        "eager": None,
        "best": None,
        "bytes": 2000,
        "flops": 2000,
        "num_candidates": 1,
        "num_from_library": 0,
    },
    {
        "record": "result",
        "target": "model.py",
        "verdict": verdict(True).to_json(),
        "launches": {"before": 6, "after": 4},
        "bytes": {"before": 25_165_824, "after": 13_400_000},
        "times": {},
        "outcome": {
            "status": "optimized",
            "cause": None,
            "message": "Not timed: no GPU. 6 launches become 4 (estimate), correct in 1 case.",
            "fragments": {"proposed": 1, "tried": 1},
            "candidates": {"tried": 1, "right": 1, "wrong": 0, "cut_off": 0, "reasons": {}},
            "left_out": [],
            "kept_in_pytorch": [],
        },
        "layout": "contiguous",
        "num_operators": 2,
        "num_fragments": 1,
        "num_triton": 1,
        "failed_sources": [],
        "operators_triton": 2,
        "unknown_operators": [],
        "source": "pass",
        "seconds": 1.5,
    },
]
