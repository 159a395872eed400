"""Records of a run of reinforcement learning, as `train rl` writes them, made up: correctness
rises, a cheat is tried for a while, one promotion."""

from kernelwright.core import record
from kernelwright.core.verdict import Code

PROGRAM = """\
import torch


def get_inputs():
    x0 = torch.randn((32, 8))
    return [x0]


def fused_operator(x0):
    t0 = torch.exp(x0)
    t1 = torch.clamp(t0, max=1.0)
    return [t1]
"""
RECIPE = {"seed": 3, "objective": "drpo", "group": 8, "model": {"path": "runs/sft/best"}}
ENVIRONMENT = {
    "python": "3.12.3",
    "versions": {"torch": "2.11.0", "trl": "1.16.0"},
    "gpu": "NVIDIA H200, 580.1, 143771 MiB",
    "commit": "0123456789ab",
}
ROLLOUTS = 64
PROMOTED = 12


def part(from_step=0, **changes):
    return {
        "record": "part",
        "command": "train rl",
        "from_step": from_step,
        "from": f"step-{from_step:08}" if from_step else None,
        "steps_trained_again": 0,
        "processes": 1,
        "recipe": RECIPE,
        "data": {"programs": {"L1": 400, "L2": 300}},
        "environment": ENVIRONMENT,
        **changes,
    }


def step(number, *, timed=True):
    """Of the 64 rollouts some 2 more are accepted at each step."""
    accepted = min(10 + 2 * number, 56)
    cheats = 6 if 5 <= number < 10 else 0
    wrong = ROLLOUTS - 4 - accepted - cheats
    faster = accepted / 128 if timed else None
    level = {"rollouts": ROLLOUTS, "correct": accepted / ROLLOUTS, "faster": faster}
    return {
        "record": "rl_step",
        "step": number,
        "level_mix": {"L1": 1.0} if number <= PROMOTED else {"L1": 0.25, "L2": 0.75},
        "rollouts": ROLLOUTS,
        "answers": {"candidate": ROLLOUTS - 3, "cut_off": 2, "no_code": 1},
        "codes": {"accepted": accepted, "wrong_values": wrong}
        | ({Code.DECOY.value: cheats} if cheats else {}),
        "infra": 1,
        "judged": 50,
        "reward": {"mean": accepted / ROLLOUTS, "std": 0.4},
        "correct": accepted / ROLLOUTS,
        "faster": faster,
        "speedup": 1.0 + number / 50 if timed else None,
        "own_kernel_share": 0.9 if timed else None,
        "groups": {"mixed": 5, "all_right": 1, "all_wrong": 2},
        "by_level": {"L1": level},
        "tokens": 300.0 - number / 10,
        "loss": 0.01 * number,
        "kl": 0.002 * number,
        "entropy": 2.0 / number,
        "grad_norm": 1.0 / number,
        "learning_rate": 1e-5,
        "seconds": {
            "decode": 10.0, "judge": 12.0, "judge_wait": 4.0, "learn": 3.0,
            "lock_wait": 2.0, "other": 1.0, "step": 20.0,
        },
    }  # fmt: skip


def validation(number, *, timed=True):
    own = {
        "programs": 20,
        "pass@1": 1 - 0.5 / number,
        "faster": 0.3 if timed else None,
        "speedup": 1.25 if timed else None,
    }
    return {
        "record": "rl_validation",
        "step": number,
        "by_level": {"L1": own, "L2": own, "L10": own},
    }


def verdict(code=Code.OK, speedup=1.5):
    """What pages read of one."""
    accepted = code is Code.OK
    return {
        "accepted": accepted,
        "code": code.value,
        "message": "" if accepted else "max error 4e-4, allowed 1e-6",
        "speedup": speedup if accepted else None,
    }


def audit(number, reward, *, agrees=True, source="# the most rewarded\n"):
    found = verdict() if agrees else verdict(Code.DECOY)
    return {
        "record": "audit", "step": number, "program": PROGRAM, "source": source, "reward": reward,
        "verdict": found, "agrees": agrees,
    }  # fmt: skip


def example(number, text, found, program=PROGRAM):
    return {
        "record": "example", "step": number, "program": program, "text": text, "verdict": found,
    }  # fmt: skip


def lines(steps=20, *, timed=True):
    found = [part(), validation(1, timed=timed)]
    for number in range(1, steps + 1):
        found.append(step(number, timed=timed))
        if number % 10 == 0:
            found += [validation(number, timed=timed), {"record": "checkpoint", "step": number}]
        if number == PROMOTED:
            promoted = {"from": "L1", "to": "L1 + L2", "pass@1": 0.92}
            found.append({"record": "promotion", "step": number, **promoted})
    summary = {"record": "summary", "step": steps, "gpu_hours": 1.25, "gpu_peak_bytes": 61 * 10**9}
    return [*found, summary]


def write_rl(folder, found=None):
    """A run's folder with records, audits and examples."""
    record.append(folder / "records.jsonl", lines() if found is None else found)
    audits = [audit(10, 0.4), audit(20, 2.0, agrees=False, source="# a decoy\n")]
    record.append(folder / "audits.jsonl", audits)
    examples = [
        example(1, "no code at all", None),
        example(20, "<plan>\n</plan>\n```python\nx = 1\n```\n", verdict()),
        example(20, "seen once", verdict(Code.WRONG_VALUES), program="L1-7"),
    ]
    record.append(folder / "examples.jsonl", examples)
    return folder
