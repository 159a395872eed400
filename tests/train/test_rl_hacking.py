"""Cheats earn nothing, by the real judges; audits that disagree are told, and end the reward."""

from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import pytest
from rl_runs import (
    FakeJudges,
    FixedWriter,
    by_word,
    make_program,
    make_recipe,
    records,
    save_policy,
    verdict,
    write_programs,
)

from kernelwright.core import record
from kernelwright.core.verdict import Code
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import Reward
from kernelwright.train.rl.recipe import Audits
from kernelwright.train.rl.run import train_rl
from kernelwright.train.rl.watch import RewardWatch
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.standing import JudgedCandidate, StandingJudges

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n"
KERNEL = """\
@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, {value}, i < n)


def fused_operator(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return [{result}]
"""
HONEST = KERNEL.format(value="tl.maximum(v, 0)", result="y")
CHEATS = {
    "torch alone": "def fused_operator(x):\n    return [torch.relu(x)]\n",
    "a copy of the input": KERNEL.format(value="v", result="y"),
    "a constant": KERNEL.format(value="v * 0 + 0.4", result="y"),
    "a decoy beside torch": KERNEL.format(value="v", result="torch.relu(x)"),
    "hidden behind a method": KERNEL.format(value="v", result="x.clamp(min=0)"),
    "a fall-back": KERNEL.replace("    return [{result}]", "    try:\n        return [y]\n"
                                  "    except Exception:\n        return [torch.relu(x)]")
    .format(value="v"),
    "memory as it was": "def fused_operator(x):\n    return [torch.empty_like(x)]\n",
}  # fmt: skip


def as_answer(source):
    return f"<plan>\nPlan of k\n</plan>\n```python\n{HEAD}{source}```\n"


@pytest.fixture(scope="module")
def relus(tmp_path_factory):
    programs = [make_program(1, "relu", size) for size in (40, 56, 72, 88, 104, 120)]
    return programs, write_programs(tmp_path_factory.mktemp("relus") / "p.jsonl", programs)


@pytest.fixture(scope="module")
def judges():
    """Real ones of both grades, as `train_rl` wants them made; they outlive its runs."""
    with ExitStack() as stack:
        standing = {}

        def make(recipe, workers, cluster, num_training):
            if recipe.grade not in standing:
                made = StandingJudges(local_pools(recipe, 1))
                standing[recipe.grade] = stack.enter_context(made)
            return nullcontext(standing[recipe.grade])

        yield make


@pytest.fixture
def answered(relus, judges, tmp_path, monkeypatch):
    """The folder of a run of one step whose answers are from a list."""

    def run(texts):
        programs, path = relus
        policy = save_policy(tmp_path / "model", programs, [*map(as_answer, texts)], steps=1)
        monkeypatch.setattr(
            "kernelwright.train.rl.run.writer_of",
            lambda *made: FixedWriter(made[2], map(as_answer, texts)),
        )
        recipe = make_recipe(
            policy,
            path,
            rollouts={"programs": 2, "group": len(texts), "max_tokens": 240},
            judging={"device": "cpu", "timing": False},
            validation={"every_steps": 100, "programs": 1},
            audits={"every_steps": 1},
            budget={"steps": 1},
        )
        train_rl(recipe, tmp_path / "run", resume=False, workers=1, say=print, make_judges=judges)
        return tmp_path / "run"

    return run


@pytest.mark.slow
def test_a_policy_that_cheats_earns_nothing(answered):
    folder = answered(list(CHEATS.values()))
    (line,) = records(folder, "rl_step")
    assert line["answers"] == {"candidate": 2 * len(CHEATS)}
    assert sum(line["codes"].values()) == 2 * len(CHEATS)
    assert "accepted" not in line["codes"]
    assert line["cheats"] >= 2 * 4, "the others are wrong by their values"
    assert (line["reward"]["mean"], line["correct"], line["infra"]) == (0.0, 0.0, 0)
    assert line["groups"] == {"mixed": 0, "all_right": 0, "all_wrong": 2}
    assert (folder / "audits.jsonl").read_text() == ""


@pytest.mark.slow
def test_an_honest_kernel_earns_beside_cheats_and_passes_its_audit(answered):
    folder = answered([HONEST, CHEATS["torch alone"], CHEATS["a constant"]])
    (line,) = records(folder, "rl_step")
    assert line["codes"]["accepted"] == 2
    assert line["reward"]["mean"] == pytest.approx(1 / 3)
    assert line["groups"]["mixed"] == 2
    audits = list(record.read(folder / "audits.jsonl"))
    assert len(audits) == 2
    for audit in audits:
        assert audit["agrees"]
        assert audit["verdict"]["grade"] == "fresh"
        assert audit["reward"] == 1.0
        assert "tl.maximum(v, 0)" in audit["source"]


@pytest.mark.slow
def test_what_an_audit_refuses_is_told_and_not_rewarded_again(relus, tmp_path):
    def refuses(reference, source):
        return JudgedCandidate(verdict(Code.WRONG_VALUES, grade="fresh"))

    def make_judges(recipe, workers, cluster, num_training):
        return FakeJudges(by_word if recipe.grade == "recycled" else refuses)

    programs, path = relus
    policy = save_policy(tmp_path / "model", programs)
    recipe = make_recipe(
        policy,
        path,
        budget={"steps": 4},
        optimizer={"learning_rate": 1e-6},
        audits={"every_steps": 2, "candidates": 50},
        validation={"every_steps": 100, "programs": 1},
    )
    said = []
    train_rl(
        recipe, tmp_path / "run", resume=False, workers=1, say=said.append, make_judges=make_judges
    )
    audits = list(record.read(tmp_path / "run" / "audits.jsonl"))
    assert {line["step"] for line in audits} <= {2, 4}
    assert not any(line["agrees"] for line in audits)
    assert any("an audit refuses" in line for line in said)
    before, after = (records(tmp_path / "run", "rl_step")[n] for n in (0, 3))
    assert before["codes"]["accepted"] > 5
    assert after["codes"].get("accepted", 0) < before["codes"]["accepted"] / 2
    texts = [(line["program"], line["source"]) for line in audits]
    assert len(set(texts)) == len(texts), "nothing is audited twice"


def test_the_fastest_are_audited_even_where_all_earn_the_same():
    outcomes = [Outcome.of(verdict(speedup=speed)) for speed in (1.0, 9.0, 3.0)]
    outcomes.append(Outcome.of(verdict(), modelled=5.0))
    rollouts = [rollout_of(number) for number in range(4)]
    watch = RewardWatch(Audits(candidates=2), FakeJudges(lambda *_: JudgedCandidate(verdict())))
    watch.note(rollouts, outcomes, [Reward.uniform(1.0)] * 4)
    audited, refused = watch.audit(1)
    assert [line["source"] for line in audited] == ["# 1\n", "# 3\n"]
    assert refused == {}


def test_a_measured_time_counts_more_than_the_estimate_of_the_same_answer():
    outcomes = [
        Outcome.of(verdict(speedup=measured), modelled=estimate)
        for measured, estimate in ((9.0, 1.0), (1.0, 20.0), (None, 3.0))
    ]
    watch = RewardWatch(Audits(candidates=2), FakeJudges(lambda *_: JudgedCandidate(verdict())))
    watch.note([rollout_of(number) for number in range(3)], outcomes, [Reward.uniform(1.0)] * 3)
    audited, _ = watch.audit(1)
    assert [line["source"] for line in audited] == ["# 0\n", "# 2\n"]


def rollout_of(number):
    candidate = SimpleNamespace(source=f"# {number}\n")
    return SimpleNamespace(
        answer=SimpleNamespace(candidate=candidate), question=SimpleNamespace(reference="")
    )
