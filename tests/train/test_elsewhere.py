"""Our rewards in TRL's own trainer: a model that has learnt a right and a wrong answer by heart."""

import json

import pytest
import torch
from rl_runs import FakeJudges
from sft_runs import make_recipe, run
from verdicts import times, verdict

from corpus import ROOT
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.policy.prompt import Request, request_text
from kernelwright.programs.text import parse
from kernelwright.train.elsewhere import kernel_reward, outcomes_of
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.standing import JudgedCandidate, StandingJudges

RELU = (ROOT / "tasks" / "relu.py").read_text()
GOOD = (ROOT / "honest" / "plain.py").read_text().split("\n", 3)[3]
WRONG = GOOD.replace("maximum", "minimum")


def answer(source):
    return f"<plan>\n</plan>\n```python\n{source}```\n"


def rows():
    """One program, answered once right and once wrong."""
    asked = request_text(Request(program=parse(RELU)))
    for split in ("train", "validation"):
        for written in (GOOD, WRONG):
            yield {
                "prompt": [{"role": "user", "content": asked}],
                "completion": [{"role": "assistant", "content": answer(written)}],
                "program": RELU,
                "level": 1,
                "source": "teacher",
                "split": split,
            }


def found(code=Code.OK, candidate_ms=None):
    taken = times(candidate=candidate_ms, reference=1.0) if candidate_ms else {}
    return JudgedCandidate(verdict(code, times=taken))


def source(name):
    return f"def fused_operator(x0):\n    return [{name}]\n"


def told_judges():
    return FakeJudges(lambda _, source: FINDINGS[source])


FINDINGS = {
    source("fast"): found(candidate_ms=0.8),
    source("wrong"): found(Code.WRONG_VALUES),
    source("ours"): JudgedCandidate(None, "the machine went down"),
    source("unusable"): JudgedCandidate(None, "no task", is_usage=True),
}


def test_answers_keep_their_places_and_programs_are_asked_for_once():
    judges = told_judges()
    names = ["wrong", "fast", None, "ours", "fast"]
    texts = [answer(source(name)) if name else "no code" for name in names]
    programs = ["a", "b", "a", "a", "a"]
    wrong, fast, unread, ours, again = outcomes_of(judges, programs, texts)
    assert (fast.speedup, fast.is_correct, again) == (1.25, True, fast)
    assert not wrong.is_correct
    assert unread.reached < wrong.reached
    assert ours is None
    assert judges.asked == [
        ("a", [source("wrong"), source("ours"), source("fast")]), ("b", [source("fast")]),
    ]  # fmt: skip


def test_failures_of_ours_have_no_reward_and_wrong_answers_none_worth_having():
    told = [answer(source(name)) for name in ("fast", "wrong", "ours", "unusable")]
    reward = kernel_reward(told_judges(), "mixed")
    with pytest.warns(UserWarning, match="no task"):
        rewards = reward(completions=told, program=["a"] * 4, prompts=["?"] * 4)
    assert rewards == [pytest.approx(0.3 + 0.7 * 1.25), 0.0, None, None]


def test_plan_and_code_are_functions_of_their_own():
    told = [[{"role": "assistant", "content": answer(source("fast"))}]]
    functions = [
        kernel_reward(told_judges(), "hierarchical", part=part, column="text")
        for part in ("plan", "code")
    ]
    assert [each(completions=told, text=["a"]) for each in functions] == [[1.25], [1.0]]
    assert [each.__name__ for each in functions] == ["hierarchical_plan", "hierarchical_code"]


def test_what_is_not_there_is_named():
    with pytest.raises(UsageError, match="no reward 'fastest'"):
        kernel_reward(told_judges(), "fastest")
    with pytest.raises(UsageError, match="no part 'all'"):
        kernel_reward(told_judges(), part="all")
    with pytest.raises(UsageError, match="no column 'program'"):
        kernel_reward(told_judges())(completions=[""], prompts=[""])


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A folder with the pairs, and a model that knows them."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("learnt")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    fresh = {
        "vocabulary": 1500, "hidden": 48, "layers": 1, "heads": 2, "kv_heads": 2,
        "intermediate": 96,
    }  # fmt: skip
    recipe = make_recipe(
        folder / "pairs.jsonl",
        model={"fresh": fresh},
        batch={"step_tokens": 512, "micro_tokens": 512},
        optimizer={"learning_rate": 1e-2, "warmup_steps": 5},
        validation={"every_steps": 1000},
        checkpoints={"every_steps": 1000},
        log_every_steps=50,
        budget={"steps": 250},
    )
    run(recipe, folder / "run")
    return folder


def advantage_of_the_right_one(model, tokenizer):
    """Of its log-probability over the wrong one's."""
    logps = []
    for row in list(rows())[:2]:
        ids = [
            tokenizer.apply_chat_template(said, return_tensors="pt")["input_ids"]
            for said in (row["prompt"], row["prompt"] + row["completion"])
        ]
        asked, whole = ids[0].shape[1], ids[1]
        with torch.no_grad():
            logits = model(whole).logits[0, :-1].log_softmax(-1)
        each = logits.gather(1, whole[0, 1:, None])[asked:, 0]
        logps.append(each.sum().item())
    return logps[0] - logps[1]


@pytest.mark.slow
def test_trls_trainer_learns_which_of_two_answers_is_right(learnt, tmp_path):
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    told = load_dataset("json", data_files=str(learnt / "pairs.jsonl"), split="train")
    config = GRPOConfig(
        output_dir=str(tmp_path), max_steps=4, per_device_train_batch_size=8, num_generations=8,
        max_completion_length=256, learning_rate=3e-4, lr_scheduler_type="constant", seed=1,
        logging_steps=1, report_to="none", use_cpu=True, bf16=False, disable_tqdm=True,
        save_strategy="no",
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(learnt / "run" / "last", dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(learnt / "run" / "last")
    before = advantage_of_the_right_one(model, tokenizer)
    recipe = JudgeRecipe(device="cpu", timing=False, seed=5).resolved()
    with StandingJudges(local_pools(recipe, 1)) as judges:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[kernel_reward(judges)],
            train_dataset=told,
            args=config,
        )
        trainer.train()
    name = "rewards/rule_and_execution_code/mean"
    rewards = [line[name] for line in trainer.state.log_history if name in line]
    assert any(0 < reward < 1 for reward in rewards), "both were answered, and told apart"
    after = advantage_of_the_right_one(model, tokenizer)
    assert after > before + 0.1
