"""What tests of reinforcement learning share: programs, a policy that wavers, judges that read."""

import json
from concurrent.futures import Future
from contextlib import nullcontext

import pytest
import torch
from sft_runs import merged, records
from verdicts import verdict

pytest.importorskip("trl", reason="needs the extra train")

from kernelwright.core import strict
from kernelwright.core.verdict import Code
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import CODE_BEGIN, CODE_END, PLAN_BEGIN, PLAN_END
from kernelwright.policy.decode import WrittenTokens
from kernelwright.policy.embedded import fresh_model
from kernelwright.policy.local import prompt_tokens
from kernelwright.policy.prompt import Request, conversation
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.programs.build import Builder
from kernelwright.programs.record import program_record
from kernelwright.train.rl.recipe import RlRecipe
from kernelwright.train.rl.run import train_rl
from kernelwright.verify.many.standing import JudgedCandidate

OPS = {1: ("relu", "exp", "tanh", "abs", "neg", "sigmoid"), 2: ("exp", "tanh")}


def make_program(level, op, size):
    builder = Builder()
    value = builder.input(TensorType((size,)))
    for _ in range(level):
        (value,) = builder.call(op, input=value)
    return builder.program([value])


def make_programs(sizes=(24, 40, 56, 72)):
    return [
        make_program(level, op, size) for level, ops in OPS.items() for op in ops for size in sizes
    ]


def write_programs(path, programs):
    lines = [{"record": "program", **program_record(program)} for program in programs]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def answer(word):
    return (
        f"{PLAN_BEGIN}\nPlan of k\n{PLAN_END}\n{CODE_BEGIN}\n"
        f"def fused_operator(x):\n    return {word}\n{CODE_END}\n"
    )


RIGHT, WRONG = answer("right"), answer("wrong")


def save_policy(folder, programs, answers=(RIGHT, WRONG), *, steps=250, max_length=512):
    """A tiny model that gives each of these answers about as often, whatever it is asked."""
    torch.set_num_threads(1)  # many would wait for one another
    asked = [conversation(Request(program=program)) for program in programs]
    texts = [message.content for messages in asked for message in messages[1:]]
    tokenizer = train_tokenizer([*texts, *answers], vocabulary=600, max_length=max_length)
    torch.manual_seed(0)
    model = fresh_model(
        len(tokenizer), hidden=32, layers=1, heads=2, kv_heads=1,
        intermediate=64,
        max_length=max_length,
    )  # fmt: skip
    rows, labels = [], []
    for messages in asked:
        prompt = prompt_tokens(tokenizer, messages)
        for text in answers:
            said = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
            rows.append(torch.tensor(prompt + said))
            labels.append(torch.tensor([-100] * len(prompt) + said))
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    targets = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        some = torch.randint(len(rows), (16,), generator=rng)
        model(input_ids=ids[some], labels=targets[some]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def by_word(reference, source):
    """Right is what says so."""
    return JudgedCandidate(verdict() if "right" in source else verdict(Code.WRONG_VALUES))


class FakeJudges:
    """In this process, at once: `find` says what becomes of a candidate."""

    def __init__(self, find=by_word):
        self.find, self.known, self.num_judged, self.asked = find, {}, 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def undisturbed(self):
        return nullcontext()

    def take_stages(self):
        return {"judges": {"compile": 0.5}, "clock": {}}

    def judge(self, reference, sources):
        self.asked.append((reference, list(sources)))
        futures = []
        for source in sources:
            if (reference, source) not in self.known:
                self.num_judged += 1
                self.known[reference, source] = self.find(reference, source)
            future = Future()
            future.set_result(self.known[reference, source])
            futures.append(future)
        return futures


class FixedWriter:
    """Answers from a list, in turn, whatever is asked; it does not learn."""

    def __init__(self, tokenizer, texts):
        self.rows = [
            WrittenTokens(tokenizer(text)["input_ids"], tokenizer.eos_token_id) for text in texts
        ]

    def refresh(self, model):
        pass

    def write(self, prompts, *, seeds, sampling):
        for number in range(len(prompts)):
            yield number, self.rows[number % len(self.rows)]


def make_recipe(policy, file, **changes):
    """A recipe whose steps take a tenth of a second; `changes` are tables, merged in."""
    values = {
        "seed": 1,
        "micro_tokens": 1024,
        "budget": {"steps": 6},
        "model": {"path": str(policy)},
        "programs": {"files": [str(file)]},
        "curriculum": {"stages": [{"levels": {"1": 1.0}}]},
        "rollouts": {"programs": 6, "group": 6, "max_tokens": 32},
        "judging": {"device": "cpu"},
        "objective": {"loss": "grpo", "reward": "rule_and_execution"},
        "optimizer": {"learning_rate": 3e-3},
        "validation": {"every_steps": 3, "share": 0.3, "programs": 4, "examples": 2},
        "audits": {"every_steps": 3, "candidates": 2},
        "checkpoints": {"every_steps": 2, "keep": 2},
    }  # fmt: skip
    return strict.read(RlRecipe, merged(values, changes))


def run(recipe, folder, *, find=by_word, resume=False, say=lambda _: None):
    return train_rl(
        recipe, folder, resume=resume, workers=1, say=say,
        make_judges=lambda *_: FakeJudges(find),
    )  # fmt: skip


def losses(folder):
    """Step -> loss, to the last bit."""
    return {line["step"]: line["loss"] for line in records(folder, "rl_step")}
