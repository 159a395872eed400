"""Runs end to end: what is learnt, what is written, and that being interrupted changes nothing."""

import json
import os
import shutil
import signal

import pytest
import torch
from record_kinds import faults_in
from rl_runs import (
    by_word,
    losses,
    make_programs,
    make_recipe,
    records,
    run,
    save_policy,
    verdict,
    write_programs,
)
from sft_runs import kill_at, run_in_two, script
from transformers import AutoModelForCausalLM

from kernelwright.core import record
from kernelwright.core.errors import InfraError
from kernelwright.core.verdict import Code
from kernelwright.verify.many.standing import JudgedCandidate

AHEAD = {"ahead": 1}
TWO_STAGES = [{"levels": {"1": 1.0}}, {"levels": {"1": 1.0, "2": 1.0}}]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("programs") / "p.jsonl", make_programs())


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return save_policy(tmp_path_factory.mktemp("policy") / "model", make_programs())


@pytest.fixture(scope="module")
def whole(policy, programs, tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(make_recipe(policy, programs), folder)
    return folder


@pytest.fixture(scope="module")
def whole_ahead(policy, programs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole_ahead") / "run"
    run(make_recipe(policy, programs, rollouts=AHEAD), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["grpo", "drpo"])
def test_what_is_rewarded_is_learnt(policy, programs, tmp_path, loss):
    reward = {"grpo": "rule_and_execution", "drpo": "log_speed"}[loss]
    recipe = make_recipe(
        policy, programs, budget={"steps": 12}, objective={"loss": loss, "reward": reward}
    )
    run(recipe, tmp_path / "run")
    steps = records(tmp_path / "run", "rl_step")
    assert steps[0]["correct"] < 0.7
    assert sum(line["correct"] for line in steps[-3:]) / 3 > 0.85
    (summary,) = records(tmp_path / "run", "summary")
    assert summary["step"] == 12
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "last")
    assert model.dtype == torch.bfloat16


@pytest.mark.slow
def test_a_step_s_record_accounts_for_every_answer(whole):
    (part,) = records(whole, "part")
    for name in ("records.jsonl", "examples.jsonl", "audits.jsonl"):
        assert faults_in(whole / name) == set()
    assert part["command"] == "train rl"
    assert set(part["data"]["programs"]) == {"L1", "L2"}
    steps = records(whole, "rl_step")
    assert [line["step"] for line in steps] == list(range(1, 7))
    for line in steps:
        assert line["rollouts"] == 36 == sum(line["answers"].values())
        assert sum(line["codes"].values()) == line["answers"]["candidate"]
        assert sum(line["reached"].values()) == 36
        assert line["reached"]["correct"] == line["codes"].get("accepted", 0)
        assert line["reached"]["ran"] == line["codes"].get("wrong_values", 0)
        assert line["cheats"] == 0
        assert line["level_mix"] == {"L1": 1.0}
        assert sum(line["groups"].values()) == 6
        right = line["codes"].get("accepted", 0)
        assert line["correct"] == pytest.approx(right / 36)
        assert line["by_level"]["L1"]["correct"] == pytest.approx(right / 36)
        assert line["reward"]["mean"] == pytest.approx(right / 36)
        assert line["judged"] <= line["answers"]["candidate"]
        assert line["faster"] is line["speedup"] is line["own_kernel_share"] is None
        spent = line["seconds"]
        names = ("decode", "judge_wait", "learn", "lock_wait", "other")
        parts = sum(spent[name] for name in names)
        assert parts == pytest.approx(spent["step"])
        assert line["judging_s"] == {"judges": {"compile": 0.5}, "clock": {}}
    assert list((whole / "tensorboard").iterdir())


def test_validations_come_first_and_now_and_then(whole):
    validations = records(whole, "rl_validation")
    assert [line["step"] for line in validations] == [0, 3, 6]
    assert validations[0]["by_level"].keys() == {"L1", "L2"}
    examples = list(record.read(whole / "examples.jsonl"))
    assert [line["step"] for line in examples] == [0, 0, 3, 3, 6, 6]
    assert {line["program"] for line in examples[:2]} == {line["program"] for line in examples[4:]}
    (summary,) = records(whole, "summary")
    scores = [sum(each["pass@1"] for each in line["by_level"].values()) / 2 for line in validations]
    assert summary["best_score"] == pytest.approx(max(scores))
    assert summary["best_step"] == validations[scores.index(max(scores))]["step"]
    standing = json.loads((whole / "best" / "standing.json").read_text())
    assert standing["best_score"] == summary["best_score"]


@pytest.mark.slow
def test_the_next_answers_are_written_before_these_are_learnt_from(whole, whole_ahead):
    """With the weights of before, so that ratios are not 1."""
    assert all(line["kl"] == 0.0 for line in records(whole, "rl_step"))
    late = [line["kl"] for line in records(whole_ahead, "rl_step")]
    assert late[0] == pytest.approx(0.0, abs=1e-6)
    assert all(abs(kl) > 1e-6 for kl in late[1:])


def own_process(policy, programs, folder, rollouts):
    """The run that others are compared with, for a process of its own."""
    arguments = f"{str(policy)!r}, {str(programs)!r}, rollouts={rollouts!r}"
    return script("rl_runs", arguments, folder)


@pytest.mark.slow
@pytest.mark.parametrize(("reference", "rollouts"), [("whole", {}), ("whole_ahead", AHEAD)])
def test_a_killed_run_goes_on_as_if_it_had_not_been(
    policy, programs, tmp_path, request, reference, rollouts
):
    expected, folder = request.getfixturevalue(reference), tmp_path / "run"
    kill_at(5, own_process(policy, programs, folder, rollouts))
    run(make_recipe(policy, programs, rollouts=rollouts), folder, resume=True)
    assert records(folder, "part")[1]["from_step"] == 4
    assert losses(folder) == losses(expected)
    for kind in ("rl_validation", "promotion"):
        assert records(folder, kind) == records(expected, kind)
    for name in ("examples.jsonl", "audits.jsonl"):
        assert (folder / name).read_text() == (expected / name).read_text()
    found, wanted = (each / "last" / "model.safetensors" for each in (folder, expected))
    assert found.read_bytes() == wanted.read_bytes()


@pytest.mark.slow
def test_sigterm_ends_a_run_with_a_checkpoint(policy, programs, whole, tmp_path):
    def say(line):
        if line.startswith("step 2 "):
            os.kill(os.getpid(), signal.SIGTERM)

    folder = tmp_path / "run"
    ended = run(make_recipe(policy, programs), folder, say=say)
    assert (ended.stopped_by, ended.standing.step) == (signal.SIGTERM, 3)
    assert not run(make_recipe(policy, programs), folder, resume=True).stopped_by
    assert losses(folder) == losses(whole)


def test_failures_of_ours_are_no_wrong_answers(policy, programs, tmp_path):
    """Answers that say wrong cannot be judged: nothing is left to compare the right ones with."""

    def find(reference, source):
        return (
            by_word(reference, source) if "right" in source else JudgedCandidate(None, "guest lost")
        )

    recipe = make_recipe(policy, programs, budget={"steps": 1})
    run(recipe, tmp_path / "run", find=find)
    (line,) = records(tmp_path / "run", "rl_step")
    assert line["infra"] > 5
    assert line["codes"] == {"accepted": line["answers"]["candidate"] - line["infra"]}
    others = line["rollouts"] - line["answers"]["candidate"]
    assert line["correct"] == line["codes"]["accepted"] / (line["codes"]["accepted"] + others)


def test_a_run_whose_judges_all_fail_ends(policy, programs, tmp_path):
    with pytest.raises(InfraError, match="guest lost"):
        run(
            make_recipe(policy, programs),
            tmp_path / "run",
            find=lambda *_: JudgedCandidate(None, "guest lost"),
        )


def test_programs_that_cannot_be_judged_by_are_not_drawn_again(policy, programs, tmp_path):
    asked = []

    def find(reference, source):
        asked.append(reference)
        if "torch.exp(" in reference:
            return JudgedCandidate(None, "not finite", is_usage=True)
        return by_word(reference, source)

    recipe = make_recipe(
        policy, programs, budget={"steps": 3}, validation={"every_steps": 100, "programs": 1}
    )
    run(recipe, tmp_path / "run", find=find)
    state = json.loads((tmp_path / "run" / "last" / "rounds.json").read_text())
    texts = {line["text"] for line in record.read(programs)}
    barred = {reference for reference in asked if "torch.exp(" in reference}
    assert barred <= texts
    assert 0 < len(state["curriculum"]["barred"]) <= len(barred)


def test_stages_follow_held_out_programs(policy, programs, tmp_path):
    recipe = make_recipe(
        policy,
        programs,
        curriculum={"stages": TWO_STAGES, "promote_at": 0.75},
        validation={"every_steps": 2},
    )
    run(recipe, tmp_path / "run", find=lambda *_: JudgedCandidate(verdict()))
    (line,) = records(tmp_path / "run", "promotion")
    assert (line["step"], line["from"], line["to"]) == (0, 0, 1)
    assert line["pass@1"] >= 0.75
    assert records(tmp_path / "run", "rl_step")[0]["level_mix"] == {"L1": 0.5, "L2": 0.5}


def test_speed_is_recorded_and_rewarded(policy, programs, tmp_path):
    def find(reference, source):
        if "right" not in source:
            return JudgedCandidate(verdict(Code.WRONG_VALUES))
        return JudgedCandidate(verdict(speedup=4.0, library_share=0.25))

    recipe = make_recipe(
        policy, programs, budget={"steps": 1}, objective={"loss": "drpo", "reward": "log_speed"}
    )
    run(recipe, tmp_path / "run", find=find)
    (line,) = records(tmp_path / "run", "rl_step")
    assert line["faster"] == line["correct"] > 0
    assert (line["speedup"], line["own_kernel_share"]) == (pytest.approx(4.0), 0.75)


@pytest.mark.slow
def test_what_is_wrong_is_told_and_learnt_from_again(programs, tmp_path):
    room = save_policy(tmp_path / "room", make_programs(), max_length=2048)
    recipe = make_recipe(room, programs, budget={"steps": 2}, rollouts={"turns": 2, "retries": 3})
    run(recipe, tmp_path / "run")
    for line in records(tmp_path / "run", "rl_step"):
        again = line["rollouts"] - 36
        assert 0 < again <= 3 * 36
        assert again % 3 == 0
        assert sum(line["answers"].values()) == line["rollouts"]
        assert sum(line["groups"].values()) == 6 + again // 3, "one for each wrong first answer"


@pytest.mark.slow
def test_weights_alone_are_gone_on_from_where_the_curriculum_stood(policy, programs, tmp_path):
    folder = tmp_path / "run"
    tables = {"rollouts": AHEAD, "curriculum": {"stages": TWO_STAGES, "promote_at": 0.0}}
    run(make_recipe(policy, programs, **tables), folder)
    shutil.rmtree(folder / "checkpoints")
    run(make_recipe(policy, programs, budget={"steps": 8}, **tables), folder, resume=True)
    part = records(folder, "part")[1]
    assert (part["from_step"], part["from"], part["optimizer_began"]) == (6, "last", 6)
    steps = records(folder, "rl_step")
    assert [line["step"] for line in steps] == list(range(1, 9))
    assert [line["stage"] for line in steps] == [1] * 8, "promoted before the first step, once"
    assert len(records(folder, "promotion")) == 1


def test_a_finished_run_is_not_trained_further(policy, programs, whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(folder / "last")
    assert run(make_recipe(policy, programs), folder, resume=True).standing.step == 6
    assert losses(folder) == losses(whole)
    found, wanted = (each / "last" / "model.safetensors" for each in (folder, whole))
    assert found.read_bytes() == wanted.read_bytes()


@pytest.mark.slow
def test_two_processes_learn_as_one_does(policy, programs, tmp_path, whole_ahead):
    """One answers for both, each has passes of its own; test_rl_sharded.py has answers that are
    not a step old."""
    expected, folder = whole_ahead, tmp_path / "run"
    run_in_two(tmp_path, own_process(policy, programs, folder, AHEAD))
    (part,) = records(folder, "part")
    assert part["processes"] == 2
    found, wanted = losses(folder), losses(expected)
    assert found.keys() == wanted.keys()
    for step in (1, 2):  # from then on rounding may change which tokens are drawn
        assert found[step] == pytest.approx(wanted[step], rel=1e-4, abs=1e-6)
    assert [line["tokens"] for line in records(folder, "rl_step")][:2] == [
        line["tokens"] for line in records(expected, "rl_step")
    ][:2]
