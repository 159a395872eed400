"""Credit for single kernels: verdicts on steps of wrong answers reach the tokens of these steps."""

import json
import re

import numpy as np
import pytest
from rl_runs import make_recipe

from kernelwright.core import record, strict
from kernelwright.core.errors import UsageError
from kernelwright.data.pool.answers import HEAD, SHARDS, Chosen, PoolAnswer, PoolProgram
from kernelwright.data.pool.recipe import PoolRecipe
from kernelwright.data.pool.run import make_pool
from kernelwright.data.pool.steps import JudgedStep
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import answer_text, read_answer
from kernelwright.policy.places import ends_of
from kernelwright.policy.prompt import Request, conversation
from kernelwright.policy.texts import Text
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.programs.build import Builder
from kernelwright.programs.record import program_record
from kernelwright.programs.text import to_text
from kernelwright.teacher.whole import write_whole
from kernelwright.train.rl.by_kernel import token_ranges, with_kernels
from kernelwright.train.rl.credit import Credit, CreditPart
from kernelwright.train.rl.passes import LearnedRow, tensors
from kernelwright.train.rl.pooled import PooledAnswers
from kernelwright.train.rl.rollout import Question, Rollout


@pytest.fixture(scope="module")
def program():
    """Two calls that no kernel can join: a softmax of what a sum of all gives."""
    builder = Builder()
    x, y = builder.input(TensorType((12, 16))), builder.input(TensorType((12, 16)))
    (a,) = builder.call("exp", input=x)
    (b,) = builder.call("softmax", input=y, dim=-1)
    return builder.program([a, b])


@pytest.fixture(scope="module")
def texts(program):
    """A right answer, and the same with its first kernel broken."""
    for seed in range(40):
        for candidate in write_whole(program, limit=1, seed=seed):
            if len(re.findall(r"^def fused_\w+_t\d", candidate.source, re.MULTILINE)) == 2:
                right = answer_text(candidate)
                wrong, times = re.subn(r"(tl\.store\(t0_ptr.*), t0,", r"\1, t0 * 1.5,", right)
                assert times == 1
                return right, wrong
    raise AssertionError("no cut into two kernels was drawn")


@pytest.fixture(scope="module")
def tokenizer(texts):
    return train_tokenizer(list(texts), vocabulary=600, max_length=4096)


@pytest.fixture(scope="module")
def pool(program, texts, tokenizer, tmp_path_factory):
    """A pool of one program, whose answers are not written but judged: by the interpreter."""
    folder = tmp_path_factory.mktemp("by_kernel")
    file = folder / "p.jsonl"
    file.write_text(json.dumps({"record": "program", **program_record(program)}) + "\n")
    recipe = strict.read(
        PoolRecipe,
        {
            "programs": {"files": [str(file)]},
            "choice": {"steps": True},
            "judging": {"device": "cpu", "timing": False, "workers": 1},
        },
    )
    answers = [
        PoolAnswer(
            number=number,
            writer="policy",
            text=text,
            chosen=Chosen.GREEDY,
            planned_s=1e-6,
            tokens=np.array(tokenizer(text)["input_ids"], np.int32),
            logps=np.zeros(len(tokenizer(text)["input_ids"]), np.float16),
        )
        for number, text in enumerate(texts)
    ]
    line = PoolProgram(
        name="L2/1",
        level=2,
        text=to_text(program),
        fingerprint=program_record(program)["fingerprint"],
        eager_s=1e-5,
        answers=answers,
    )
    (folder / "pool" / SHARDS).mkdir(parents=True)
    record.append(folder / "pool" / SHARDS / "00000.jsonl", [line.to_json()])
    return folder / "pool", make_pool(recipe, folder / "pool")


@pytest.mark.slow
def test_steps_of_wrong_answers_are_judged_and_counted(pool):
    folder, summary = pool
    assert summary["all"]["codes"] == {"ok": 1, "wrong_values": 1}
    counts = {"wrong_answers": 1, "with_steps": 1, "steps": 2, "right_steps": 1}
    assert summary["steps"] == {"L2": counts}
    assert "| L2 | 1 | 1 | 2 | 50.0% |" in (folder / "README.md").read_text()


def rollouts_of(folder, tokenizer, program, **objective):
    recipe = make_recipe(
        "unused",
        "unused",
        rollouts={"policy": f"pool:{folder}", "programs": 1, "group": 2},
        judging={"device": "cpu", "timing": False},
        objective={"loss": "grpo", **objective},
    )
    text = to_text(program)
    question = Question(
        name=("L2", 1),
        reference=text,
        program=program,
        messages=conversation(Request(program=program)),
    )
    answers = PooledAnswers(folder, tokenizer, recipe)
    return answers.ask([question], samples=2, sampling=recipe.rollouts.sampling(0))


def test_tokens_of_kernels_get_the_advantage_of_their_own_verdict(pool, tokenizer, program, texts):
    right, wrong = rollouts_of(pool[0], tokenizer, program, by_kernel=True)
    assert [step.is_right for step in right.steps] == [True, True]
    assert [step.is_right for step in wrong.steps] == [False, True]
    credits = [Credit(0.5, 0.5, True, 1.0), Credit(-0.5, -0.5, False, 0.0)]
    unchanged, credited = with_kernels(credits, [right, wrong], tokenizer)
    assert unchanged == credits[0]
    row = LearnedRow(
        text=Text([1, 2, 3], wrong.tokens), credit=credited, plan_length=0, group=0, old_logps=None
    )
    batch = tensors([row], alpha=1.0, pad_id=0, device="cpu")
    advantages = batch["advantages"][0, 3 : 3 + len(wrong.tokens)].tolist()
    by_advantage = {}
    for token, advantage in zip(wrong.tokens, advantages, strict=True):
        by_advantage.setdefault(round(advantage, 3), []).append(token)
    said = {value: tokenizer.decode(tokens) for value, tokens in by_advantage.items()}
    assert said.keys() == {-0.75, 0.25, -0.5}, "three of four steps of the group are right"
    assert "t0 * 1.5" in said[-0.75]
    assert "Plan of exp_t0_kernel" in said[-0.75]
    assert "def fused_exp_t0(" in said[-0.75]
    assert "tl.store(t1_ptr" in said[0.25]
    assert "Plan of softmax_t1_kernel" in said[0.25]
    assert "def fused_operator(" in said[-0.5], "the entry is the whole answer's"


def test_plans_of_kernels_count_by_alpha_as_plans_do(tokenizer, texts):
    """TritonRL's alpha weighs all tokens of a plan; a kernel's own credit is no exception."""
    tokens = tokenizer(texts[0])["input_ids"]
    credit = Credit(-1.0, -1.0, False, 0.0, (CreditPart(0, 4, 0.5),))
    row = LearnedRow(text=Text([1], tokens), credit=credit, plan_length=2, group=0, old_logps=None)
    advantages = tensors([row], alpha=0.1, pad_id=0, device="cpu")["advantages"][0]
    assert advantages[1:6].tolist() == pytest.approx([0.05, 0.05, 0.5, 0.5, -1.0])


def test_without_the_setting_no_step_is_read(pool, tokenizer, program):
    assert all(not r.steps for r in rollouts_of(pool[0], tokenizer, program))


def test_what_two_steps_share_keeps_the_credit_of_the_answer(texts, tokenizer):
    tokens = tokenizer(texts[1])["input_ids"]
    names = re.findall(r"^def (\w+)", texts[1], re.MULTILINE)
    steps = (JudgedStep(frozenset(names[:2]), True), JudgedStep(frozenset(names[1:2]), False))
    rollout = Rollout(
        question=Question(name=("L2", 1), reference="", program=None, messages=()),
        prompt=[],
        seed=0,
        tokens=tokens,
        answer=read_answer(texts[1], origin="test"),
        steps=steps,
    )
    (credit,) = with_kernels([Credit(-1.0, -1.0, False, 0.0)], [rollout], tokenizer)
    covered = "".join(tokenizer.decode(tokens[p.begin : p.end]) for p in credit.parts)
    assert f"def {names[0]}(" in covered
    assert f"def {names[1]}(" not in covered


def test_ranges_hold_whole_functions_and_nothing_else(texts, tokenizer):
    tokens = tokenizer(texts[0])["input_ids"]
    ends = ends_of(tokens, tokenizer)
    assert ends[-1] == len(texts[0])
    for name in re.findall(r"^def (fused_\w+_t\d+)", texts[0], re.MULTILINE):
        ((begin, end),) = token_ranges(texts[0], [name], ends)
        text = tokenizer.decode(tokens[begin:end]).strip()
        assert text.startswith(f"def {name}(")
        assert re.search(r"\n    return \[t\d\]$", text)


class Characters:
    """A tokenizer whose tokens are bytes: two of them may be one character."""

    def decode(self, tokens, skip_special_tokens):
        assert skip_special_tokens
        return bytes(tokens).decode(errors="replace")


def test_ends_of_tokens_that_are_parts_of_characters():
    tokens = list("aéz".encode())
    assert ends_of(tokens, Characters()) == [1, 2, 2, 3]


def test_a_pool_without_verdicts_on_steps_is_refused(pool, tokenizer, program, tmp_path):
    folder = tmp_path / "pool"
    folder.mkdir()
    (head,) = record.read(pool[0] / HEAD)
    head["recipe"]["choice"]["steps"] = False
    (folder / HEAD).write_text(json.dumps(head) + "\n")
    with pytest.raises(UsageError, match="no verdicts on steps"):
        rollouts_of(folder, tokenizer, program, by_kernel=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"loss": "drpo", "reward": "log_speed", "by_kernel": True}},
        {"objective": {"loss": "grpo", "by_kernel": True}, "rollouts": {"policy": "local"}},
    ],
    ids=["drpo reads no advantages", "answers that are written have no verdicts on steps"],
)
def test_where_nothing_would_be_credited_the_setting_is_refused(changes):
    tables = {"rollouts": {"policy": "pool:p"}} | changes
    with pytest.raises(UsageError, match="by_kernel"):
        make_recipe("unused", "unused", **tables)
