"""Reinforcement learning on a GPU: answers from a copy in bfloat16, times beside learning."""

import pytest
from rl_runs import (
    FixedWriter,
    make_program,
    make_programs,
    make_recipe,
    records,
    run,
    save_policy,
    write_programs,
)

from kernelwright.core import record
from kernelwright.train.rl.run import train_rl

SOURCE = """\
import torch
import triton
import triton.language as tl

@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, {value}, i < n)


def fused_operator(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return [y]
"""
ANSWERS = [
    f"<plan>\nPlan of k\n</plan>\n```python\n{SOURCE.format(value=value)}```\n"
    for value in ("tl.maximum(v, 0)", "v")
]


@pytest.mark.parametrize("loss", ["grpo", "drpo"])
def test_what_is_rewarded_is_learnt_one_step_ahead(tmp_path, loss):
    programs = make_programs()
    recipe = make_recipe(
        save_policy(tmp_path / "model", programs),
        write_programs(tmp_path / "p.jsonl", programs),
        budget={"steps": 24},
        rollouts={"ahead": 1},
        optimizer={"learning_rate": 1e-3},  # at 3e-3, one step behind, it may fall to nothing
        objective={
            "loss": loss,
            "reward": {"grpo": "rule_and_execution", "drpo": "log_speed"}[loss],
            "updates": 2,
        },
    )
    run(recipe, tmp_path / "run")
    steps = records(tmp_path / "run", "rl_step")
    assert steps[0]["correct"] < 0.75
    assert sum(line["correct"] for line in steps[-3:]) / 3 > 0.85
    assert abs(steps[0]["kl"]) < 0.05, "what answered and what learns are near each other"


def test_what_is_right_is_timed_while_nothing_is_learnt(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "kernelwright.train.rl.run.writer_of", lambda *made: FixedWriter(made[2], ANSWERS)
    )
    programs = [make_program(1, "relu", size) for size in (40, 56, 72, 88, 104, 120)]
    policy = save_policy(tmp_path / "model", programs, ANSWERS, steps=1)
    recipe = make_recipe(
        policy,
        write_programs(tmp_path / "p.jsonl", programs),
        budget={"steps": 2},
        rollouts={"programs": 2, "group": 8, "max_tokens": 240, "ahead": 1},
        judging={"device": "cuda", "workers": 2},
        objective={"loss": "drpo", "reward": "log_speed"},
        validation={"every_steps": 100, "programs": 1},
        audits={"every_steps": 1, "candidates": 1},
    )
    train_rl(recipe, tmp_path / "run", resume=False, workers=1, say=print)
    lines = records(tmp_path / "run", "rl_step")
    for line in lines:
        assert (line["infra"], line["codes"]["accepted"]) == (0, 8)
        assert line["speedup"] > 0
    audits = list(record.read(tmp_path / "run" / "audits.jsonl"))
    assert audits
    assert all(audit["agrees"] for audit in audits)
    assert any(line["own_kernel_share"] for line in lines)
