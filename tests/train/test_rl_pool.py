"""Pools: answers written, chosen, judged once; every run learns from the same verdicts."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rl_runs import (
    RIGHT,
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

from kernelwright.core import record, strict
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.data.pool import run as pool_run
from kernelwright.data.pool.answers import (
    JUDGED,
    SHARDS,
    Chosen,
    PoolAnswer,
    PoolProgram,
    read_pool,
)
from kernelwright.data.pool.card import spearman
from kernelwright.data.pool.choosing import choose
from kernelwright.data.pool.fastest import write_fastest
from kernelwright.data.pool.recipe import Choice, PoolRecipe
from kernelwright.data.pool.run import make_pool
from kernelwright.policy.embedded import load_model
from kernelwright.policy.scores import answer_logps
from kernelwright.policy.texts import Text
from kernelwright.programs.text import parse
from kernelwright.train.rl.recipe import RlRecipe as RunRecipe
from kernelwright.train.rl.run import train_rl

SETTINGS = {
    "writer": {"samples": 6, "max_tokens": 32, "teacher": 1},
    "choice": {"best": 9, "random": 0},
    "judging": {"device": "cpu", "timing": False, "workers": 1},
}


def pool_recipe(policy, files, **changes):
    values = json.loads(json.dumps(SETTINGS)) | {"programs": {"files": [str(f) for f in files]}}
    values["writer"]["path"] = str(policy)
    for table, change in changes.items():
        values[table] = values[table] | change
    return strict.read(PoolRecipe, values)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return save_policy(tmp_path_factory.mktemp("policy"), make_programs())


@pytest.fixture(scope="module")
def real(policy, tmp_path_factory):
    """A pool of two programs, judged by the interpreter; and its recipe."""
    folder = tmp_path_factory.mktemp("pool")
    programs = write_programs(folder / "p.jsonl", make_programs(sizes=(24,))[:2])
    recipe = pool_recipe(policy, [programs])
    summary = make_pool(recipe, folder / "pool")
    return folder / "pool", recipe, summary


@pytest.fixture(scope="module")
def pool(policy, tmp_path_factory):
    """A pool of many programs, with verdicts by the word that an answer says."""
    folder = tmp_path_factory.mktemp("words")
    programs = write_programs(folder / "p.jsonl", make_programs(sizes=tuple(range(24, 64, 4))))
    recipe = pool_recipe(policy, [programs], writer={"teacher": 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_run, "judge_many", judged_by_word)
        make_pool(recipe, folder / "pool")
    return folder / "pool"


def judged_by_word(jobs, recipe, out, judges, clock, say):
    lines = [
        {
            "record": "verdict",
            "id": job.id,
            "content": job.content,
            "verdict": by_word("", job.candidate).verdict.to_json(),
        }
        for job in jobs
    ]
    record.append(out / "records.jsonl", lines)
    return {"infra": 0}


# -- writing and judging


@pytest.mark.slow
def test_a_real_pool_holds_verdicts_of_the_policy_and_of_the_teacher(real):
    folder, _, summary = real
    for program in read_pool(folder):
        writers = [answer.writer for answer in program.answers]
        assert set(writers) == {"policy", "teacher"}
        assert sum(a.copies for a in program.answers if a.writer == "policy") == 7
        for answer in program.answers:
            if answer.chosen is Chosen.TEACHER:
                assert answer.verdict.accepted
            elif answer.chosen is not None:
                assert answer.verdict.code is Code.NO_KERNEL
    assert summary["all"]["correct"]["teacher"] == {"of": 2, "share": 1.0}
    assert summary["all"]["speedup"]["teacher"] is None, "nothing was timed"
    assert summary["all"]["planned"]["teacher"] > 0
    card = (folder / "README.md").read_text()
    assert "100.0%" in card
    assert "no rank correlation" in card


@pytest.mark.slow
def test_the_same_command_goes_on_and_another_recipe_is_refused(real, tmp_path):
    folder, recipe, summary = real
    again = Path(shutil.copytree(folder, tmp_path / "pool"))
    assert make_pool(recipe, again)["judging"]["judged_now"] == 0
    path = again / JUDGED / "records.jsonl"
    lines = [line for line in record.read(path) if line["record"] != "summary"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    assert make_pool(recipe, again)["judging"]["judged_now"] == 1
    assert make_pool(recipe, again)["all"] == summary["all"]
    with pytest.raises(UsageError, match="samples"):
        make_pool(replace(recipe, writer=replace(recipe.writer, samples=2)), again)


@pytest.mark.slow
def test_a_shard_that_was_cut_short_is_written_again(policy, real, tmp_path, monkeypatch):
    folder, recipe, _ = real
    begun = tmp_path / "pool"
    (begun / SHARDS).mkdir(parents=True)
    shutil.copy(folder / "pool.json", begun)
    (begun / SHARDS / "00000.new").write_text('{"record": "pool_prog')
    monkeypatch.setattr(pool_run, "judge_many", judged_by_word)
    make_pool(recipe, begun)
    whole = [program.to_json() for program in read_pool(folder)]
    assert [program.to_json() for program in read_pool(begun)] == whole


def test_log_probabilities_are_the_models_own(policy, pool):
    import torch

    model, tokenizer = load_model(policy, "cpu", torch.float32)
    program = next(iter(read_pool(pool)))
    answer = program.answers[0]
    prompt = prompt_of(program, tokenizer)
    ids = torch.tensor([[*prompt, *answer.tokens]])
    with torch.no_grad():
        scores = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    expected = scores.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]
    np.testing.assert_allclose(answer.logps, expected, atol=2e-3)
    (half,) = answer_logps(model, [Text(prompt, answer.tokens)], temperature=2.0)
    scores = (model(input_ids=ids).logits[0, :-1] / 2.0).log_softmax(-1)
    expected = scores.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]
    np.testing.assert_allclose(half, expected.detach(), atol=1e-4)


def prompt_of(program, tokenizer):
    from kernelwright.policy.local import prompt_tokens
    from kernelwright.policy.prompt import Request, conversation

    return prompt_tokens(tokenizer, conversation(Request(program=parse(program.text))))


@given(
    st.lists(st.integers(0, 200_000), max_size=20),
    st.text(max_size=40),
    st.sampled_from([None, *Chosen]),
)
def test_answers_go_through_json(tokens, text, chosen):
    answer = PoolAnswer(
        number=3,
        writer="policy",
        text=text,
        chosen=chosen,
        planned_s=2e-6,
        tokens=np.array(tokens, np.int32),
        logps=-np.ones(len(tokens), np.float16),
    )
    again = PoolAnswer.from_json(json.loads(json.dumps(answer.to_json())), None)
    assert again.to_json() == answer.to_json()
    assert again.tokens.tolist() == tokens


# -- choosing


def drawn(number, planned_s, writer="policy", malformed=""):
    return PoolAnswer(
        number=number,
        writer=writer,
        text=f"text {number}",
        planned_s=planned_s,
        malformed=malformed,
        tokens=np.array([1, 2], np.int32),
        logps=np.zeros(2, np.float16),
    )


def pool_program(answers):
    (program,) = make_programs(sizes=(24,))[:1]
    return PoolProgram(
        name="L1/1", level=1, text="", fingerprint="f", eager_s=1.0, answers=answers
    ), program


def test_the_greedy_answer_the_best_and_some_by_chance_are_judged():
    times = (5.0, 4.0, 1.0, 3.0, 2.0, 6.0, 7.0)
    answers = [drawn(number, time) for number, time in enumerate(times)]
    answers += [
        drawn(7, None, malformed="cut_off"),
        drawn(8, 2.0, "teacher"),
        drawn(9, None, "teacher", malformed="cut_off"),
    ]
    program, parsed = pool_program(answers)
    choose(program, parsed, Choice(best=2, random=1), seed=0)
    chosen = {answer.number: answer.chosen for answer in program.answers if answer.chosen}
    by_chance = {number for number, why in chosen.items() if why is Chosen.RANDOM}
    assert by_chance <= {1, 3, 5, 6}
    assert len(by_chance) == 1
    assert {n: why for n, why in chosen.items() if n not in by_chance} == {
        0: Chosen.GREEDY,
        2: Chosen.BEST,
        4: Chosen.BEST,
        8: Chosen.TEACHER,
    }
    for answer in program.answers:
        is_learnt_from = answer.chosen is not None or bool(answer.malformed)
        assert bool(len(answer.tokens)) == is_learnt_from


def test_answers_that_spill_registers_go_behind_the_others(monkeypatch):
    spills = {"text 1": 0, "text 2": 512, "text 3": 16}
    monkeypatch.setattr("kernelwright.data.pool.choosing._spills", lambda text, _: spills[text])
    answers = [drawn(number, time) for number, time in enumerate((9.0, 3.0, 1.0, 2.0, 4.0))]
    program, parsed = pool_program(answers)
    choose(program, parsed, Choice(best=2, random=0, compiled=3), seed=0)
    assert [a.number for a in program.answers if a.chosen is Chosen.BEST] == [1, 4]
    assert [a.spills for a in program.answers] == [None, 0, 512, 16, None]


def test_real_answers_are_compiled_for_the_target(real):
    from kernelwright.data.pool.choosing import FAILED, _spills

    program = next(iter(read_pool(real[0])))
    parsed = parse(program.text)
    (taught,) = [a for a in program.answers if a.chosen is Chosen.TEACHER]
    assert _spills(taught.text, parsed) == 0
    assert _spills(program.answers[0].text, parsed) == FAILED, "it launches nothing"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1, 2, 3), (10, 20, 30), 1.0),
        ((1, 2, 3), (3, 2, 1), -1.0),
        ((1, 1, 2, 3), (1, 2, 3, 4), 0.9486833),
        ((1, 1), (1, 2), 0.0),
    ],
)
def test_rank_correlations(one, other, expected):
    assert spearman(one, other) == pytest.approx(expected)


# -- learning


@pytest.mark.slow
def test_the_smallest_recipe_writes_judges_and_learns(tmp_path):
    """From the model that ships: a recipe whose answers hold no candidate has nothing to learn."""
    path = Path(__file__).parents[2] / "recipes" / "rl" / "smoke.toml"
    recipe = RunRecipe.load(path, ["budget.steps=1"])
    train_rl(recipe, tmp_path / "run", resume=False, workers=1, say=lambda _: None)
    (line,) = records(tmp_path / "run", "rl_step")
    assert line["answers"].get("candidate", 0) >= line["rollouts"] / 2
    assert line["judged"] > 0
    assert line["correct"] > 0
    assert line["modelled"] > 0
    assert line["speedup"] is None, "nothing is timed on a CPU"
    assert line["grad_norm"] > 0
    assert records(tmp_path / "run", "rl_validation")


def learn(pool, policy, folder, **changes):
    tables = {
        "budget": {"steps": None, "epochs": 3},
        "programs": {"files": []},
        "rollouts": {"policy": f"pool:{pool}", "programs": 8, "group": 7},
        "judging": {"device": "cpu", "timing": False},
        "validation": {"every_steps": 100},
        "audits": {"every_steps": 100},
    }
    for table, change in changes.items():
        tables[table] = tables.get(table, {}) | change
    recipe = make_recipe(policy, "unused", **tables)
    run(recipe, folder)
    return recipe


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [
        {"loss": "grpo", "reward": "rule_and_execution"},
        {"loss": "grpo", "reward": "one_plus_log", "kl": 0.01},
        {"loss": "drpo", "reward": "modelled", "delta": 1.0},
        {"loss": "drpo", "reward": "modelled", "delta": 1.0, "kl": 0.01},
    ],
    ids=lambda objective: "-".join(map(str, objective.values())),
)
def test_every_objective_learns_from_one_pool(pool, policy, tmp_path, objective):
    """What is right is written more often afterwards; nothing but held-out answers is judged."""
    learn(pool, policy, tmp_path / "run", objective=objective, optimizer={"learning_rate": 1e-3})
    steps = records(tmp_path / "run", "rl_step")
    validations = records(tmp_path / "run", "rl_validation")
    (part,) = records(tmp_path / "run", "part")
    programs = sum(part["data"]["programs"].values())
    assert 40 < programs < len(list(read_pool(pool))), "the others are held out"
    assert len(steps) == round(3 * programs / 8)
    assert all(line["judged"] == 0 for line in steps), "the verdicts are the pool's"
    assert abs(steps[0]["kl"]) < 1e-3, "the writer and the learner are one model at first"
    assert steps[-1]["kl"] > steps[0]["kl"]
    assert steps[0]["grad_norm"] > 0
    (first, *_, last) = [_right(line) for line in validations]
    assert last >= first
    assert right_share(tmp_path / "run" / "last", pool) > right_share(policy, pool) + 0.1


def _right(validation):
    levels = validation["by_level"].values()
    return sum(level["pass@1"] for level in levels) / len(levels)


def right_share(folder, pool):
    """Mean probability of the right answer beside the wrong one, over programs."""
    import torch

    model, tokenizer = load_model(folder, "cpu", torch.float32)
    shares = []
    for program in list(read_pool(pool))[:8]:
        prompt = prompt_of(program, tokenizer)
        texts = [
            Text(prompt, tokenizer(text)["input_ids"])
            for text in (RIGHT, RIGHT.replace("return right", "return wrong"))
        ]
        right, wrong = (
            float(values.sum()) for values in answer_logps(model, texts, temperature=1.0)
        )
        shares.append(1 / (1 + math.exp(wrong - right)))
    return sum(shares) / len(shares)


def test_epochs_visit_every_program_as_often(pool, policy, tmp_path):
    learn(pool, policy, tmp_path / "run", budget={"epochs": 2})
    *_, state = sorted((tmp_path / "run" / "checkpoints").glob("*/rounds.json"))
    draws = [number for *_, number in json.loads(state.read_text())["curriculum"]["draws"]]
    assert max(draws) - min(draws) <= 1


@pytest.mark.slow
def test_two_runs_on_one_pool_are_equal(pool, policy, tmp_path):
    for name in ("one", "other"):
        learn(pool, policy, tmp_path / name)
    assert losses(tmp_path / "one") == losses(tmp_path / "other")


def test_a_pool_of_other_draws_is_refused(pool, policy, tmp_path):
    with pytest.raises(UsageError, match=r"writer.temperature = 1.0, the recipe 0.7"):
        learn(pool, policy, tmp_path / "run", rollouts={"temperature": 0.7})
    with pytest.raises(UsageError, match="no pool here"):
        learn(tmp_path, policy, tmp_path / "other")


# -- expert iteration


def test_the_fastest_correct_answers_become_pairs(real, tmp_path):
    counts = write_fastest([real[0]], tmp_path / "pairs", validation=0.0)
    assert counts == {"programs": 2, "pairs": 2, "levels": {"L1": 2}, "writers": {"teacher": 2}}
    for line in record.read(tmp_path / "pairs" / "train.jsonl"):
        assert (line["source"], line["verdict"]) == ("pool", "ok")
        assert "fused_operator" in line["completion"][0]["content"]
    with pytest.raises(UsageError, match="no correct answer"):
        write_fastest([real[0]], tmp_path / "none", teacher=False)


def test_answers_within_the_noise_of_the_fastest_are_kept(pool, tmp_path):
    again = Path(shutil.copytree(pool, tmp_path / "pool"))
    program = next(p for p in read_pool(again) if len(p.answers) > 1)
    speeds = (2.0, 1.97, 1.5)
    shard = again / SHARDS / "00000.jsonl"
    line = program.to_json()
    line["answers"] = [line["answers"][0] | {"number": n} for n in range(len(speeds))]
    shutil.rmtree(again / SHARDS)
    record.append(shard, [line])
    (again / JUDGED / "records.jsonl").unlink()
    record.append(
        again / JUDGED / "records.jsonl",
        [
            {
                "record": "verdict",
                "id": f"{program.name}/{number}",
                "content": str(number),
                "verdict": verdict(speedup=speed).to_json(),
            }
            for number, speed in enumerate(speeds)
        ],
    )
    for within, kept in ((0.0, 1), (0.03, 2), (0.5, 3)):
        counts = write_fastest([again], tmp_path / "pairs", within=within)
        assert counts["pairs"] == kept
