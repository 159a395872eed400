"""Records of runs as the search writes them: on a GPU, in the CPU interpreter, and of a run that
keeps no kernel."""

import copy
from typing import Any

from kernelwright.core.record import Record
from kernelwright.core.verdict import Code, ErrorFigures, Stage, Timing, Verdict

KERNEL = '''\
@triton.jit
def linear_gelu(x_ptr, w_ptr, y_ptr, rows, BLOCK: tl.constexpr):
    """One tile of rows."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < rows, other=0.0)  # (BLOCK,)
    tl.store(y_ptr + at, x * 0.5, mask=at < rows)
'''


def timing(median_ms: float) -> Record:
    return {
        "median_ms": median_ms,
        "low_ms": median_ms * 0.98,
        "high_ms": median_ms * 1.03,
        "num_samples": 60,
    }


def call(op: str, inputs: list[str], output: str, fragment: int | None, **over: Any) -> Record:
    return {
        "op": op,
        "family": "pointwise",
        "extern": False,
        "inputs": inputs,
        "outputs": [output],
        "shapes": [[1024, 512]],
        "flops": 524_288,
        "bytes": 4_194_304,
        "fragment": fragment,
        **over,
    }


def accepted(candidate_ms: float, max_error: float) -> Verdict:
    return Verdict(
        accepted=True,
        stage=Stage.ACCEPTED,
        code=Code.OK,
        message="accepted",
        mode="hybrid",
        precision="strict",
        device="NVIDIA H200",
        errors=ErrorFigures(
            max_candidate=max_error,
            max_reference=4e-7,
            rms_candidate=1e-8,
            rms_reference=2e-8,
            max_allowed=1e-6,
            rms_allowed=6e-8,
        ),
        times={
            "candidate": Timing(**timing(candidate_ms)),
            "reference": Timing(**timing(0.2)),
        },
        launches={"linear_gelu": 1},
        library_share=0.25,
        cases=(
            "base/plain/seed 602593073/nan poison",
            "63x511 512/plain/seed 1028399524/finite poison",
            "base/part changed/seed 322217204/nan poison",
        ),
        checks=("static rules", "inputs unchanged", "own kernels launched"),
        isolation="userns+netns+ipcns+pidns+procfs+pdeathsig+nonewprivs+rlimits+landlock+seccomp",
        advice=(
            "line 101: uses triton.knobs.runtime.interpret; depend on the arguments alone",
            "8 s were over: some cases were not run",
        ),
    )


def rejected(message: str) -> Verdict:
    return Verdict(
        accepted=False,
        stage=Stage.COMPARE,
        code=Code.WRONG_VALUES,
        message=message,
        mode="hybrid",
        precision="strict",
        device="NVIDIA H200",
        cases=("64x512 scaled 0",),
    )


def gpu_run() -> list[Record]:
    """A residual MLP with layer norm: one fragment won, one lost, one operator is unknown."""
    calls = [
        call("linear", ["x0", "x1", "x2"], "t0", 0, family="matrix", flops=1_073_741_824),
        call("gelu", ["t0"], "t1", 0),
        call("linear", ["t1", "x3", "x4"], "t2", None, family="matrix", flops=1_073_741_824),
        call("aten.sort.default", ["t2"], "t3", None, extern=True, flops=0),
        call("add", ["t3", "x0"], "t4", 1),
        call("layer_norm", ["t4", "x5", "x6"], "t5", 1, family="normalization"),
    ]
    verdict = accepted(0.05, 3e-7)
    winner = "matmul tf32x3 BLOCK_M=128"
    plan = {
        "kernel": "linear_gelu",
        "fuses": ["linear", "gelu"],
        "loop": "matmul",
        "tiles": {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8},
        "precision": "tf32x3",
        "why": "the epilogue saves one pass over the output",
    }
    return [
        {
            "record": "run",
            "command": "optimize",
            "target": "examples/mlp_gelu.py",
            "options": {
                "device": "cuda",
                "precision": "strict",
                "mode": "hybrid",
                "budget_s": 600.0,
            },
            "environment": {
                "python": "3.12.3",
                "versions": {"torch": "2.11.0", "triton": "3.6.0"},
                "gpu": "NVIDIA H200, 580.1, 143771 MiB",
                "commit": "0123456789ab",
            },
            "device": "NVIDIA H200",
            "seconds": 41.5,
        },
        {
            "record": "program",
            "text": "import torch\n",
            "calls": calls,
            "flops": 2_149_580_800,
            "bytes_unfused": 25_165_824,
        },
        {
            "record": "fragment",
            "id": 0,
            "calls": [0, 1],
            "ops": ["linear", "gelu"],
            "family": "matmul",
            "winner": winner,
            "reason": "2.5x faster than PyTorch",
            "source": KERNEL,
            "plan": [plan],
            "eager": timing(0.2),
            "best": timing(0.05),
            "bytes": 5_000_000,
            "flops": 1_074_266_112,
            "num_candidates": 3,
        },
        {
            "record": "fragment",
            "id": 1,
            "calls": [4, 5],
            "ops": ["add", "layer_norm"],
            "family": "reduction",
            "winner": "one_pass ieee BLOCK=512",
            "reason": "1.6x faster than PyTorch",
            "source": KERNEL.replace("linear_gelu", "add_layer_norm"),
            "plan": [{**plan, "kernel": "add_layer_norm", "fuses": ["add", "layer_norm"]}],
            "eager": timing(0.016),
            "best": timing(0.01),
            "bytes": 6_300_000,
            "flops": 4_000_000,
            "num_candidates": 1,
        },
        *(
            {
                "record": "candidate",
                "fragment": 0,
                "schedule": schedule,
                "origin": "teacher",
                "verdict": found.to_json(),
            }
            for schedule, found in (
                ("matmul ieee BLOCK_M=64", accepted(0.11, 9e-8)),
                (winner, verdict),
                ("matmul tf32 BLOCK_M=128", rejected("max error 4e-4, allowed 1e-6")),
            )
        ),
        {
            "record": "candidate",
            "fragment": 1,
            "schedule": "one_pass ieee BLOCK=512",
            "origin": "teacher",
            "verdict": accepted(0.01, 2e-7).to_json(),
        },
        {
            "record": "result",
            "target": "examples/mlp_gelu.py",
            "verdict": verdict.to_json(),
            "launches": {"before": 6, "after": 4},
            "bytes": {"before": 25_165_824, "after": 13_400_000},
            "times": {"eager": timing(0.42), "compiled": timing(0.31), "optimized": timing(0.2)},
            "speedups": {"over_eager": [2.1, 2.05, 2.16], "over_compile": [1.55, 1.5, 1.6]},
            "torch_compile": {"timed": True, "message": "", "seconds": 14.0},
            "measured": True,
            "outcome": {
                "status": "optimized",
                "cause": None,
                "message": "2.10x the speed of PyTorch (95%: 2.05 to 2.16), correct in 2 cases.",
                "fragments": {"proposed": 2, "tried": 2},
                "candidates": {
                    "tried": 4,
                    "right": 3,
                    "wrong": 1,
                    "cut_off": 0,
                    "reasons": {"wrong_values": 1},
                },
                "left_out": [],
                "kept_in_pytorch": ["aten.sort.default"],
            },
            "layout": "contiguous",
            "num_operators": 6,
            "num_fragments": 2,
            "num_triton": 2,
            "failed_sources": [],
            "operators_triton": 4,
            "unknown_operators": [],
            "source": "import torch\nimport triton\n\n\n" + KERNEL,
            "seconds": 41.5,
        },
    ]


def cpu_run() -> list[Record]:
    """The same program where no GPU is: nothing is timed."""
    records = copy.deepcopy(gpu_run())
    for record in records:
        if record["record"] == "run":
            record["device"] = "cpu-interpreter"
            record["environment"]["gpu"] = None
        if record["record"] == "fragment":
            record["eager"] = record["best"] = None
        if record["record"] in ("candidate", "result"):
            record["verdict"].update(device="cpu-interpreter", library_share=None, speedup=None)
            record["verdict"]["times"] = {}
        if record["record"] == "result":
            record["times"] = record["speedups"] = {}
            del record["torch_compile"]
            record["measured"] = False
    return records


def unchanged_run() -> list[Record]:
    """The same program on a CPU, where every candidate was wrong: the original stays."""
    records = cpu_run()
    wrong = rejected("rms error 6.0e-01, allowed 1e-6").to_json() | {"device": "cpu-interpreter"}
    for record in records:
        if record["record"] == "fragment":
            record.update(winner=None, source=None, plan=[], reason="stays PyTorch: none is right")
        if record["record"] == "candidate":
            record["verdict"] = copy.deepcopy(wrong)
        if record["record"] == "program":
            for each in record["calls"]:
                each["fragment"] = None
        if record["record"] == "result":
            message = (
                "No kernel is right. Of 4 candidates: 4 wrong (wrong values 4)."
                " optimized.py holds the original module."
            )
            record["verdict"] = wrong | {"code": Code.NO_KERNEL, "message": "no kernel in it"}
            record["launches"]["after"] = record["launches"]["before"]
            record["bytes"]["after"] = record["bytes"]["before"]
            record.update(num_triton=0, operators_triton=0)
            record["outcome"] |= {"status": "unchanged", "cause": "all_wrong", "message": message}
            record["outcome"]["candidates"] |= {"right": 0, "wrong": 4}
            record["outcome"]["candidates"]["reasons"] = {"wrong_values": 4}
    return records
