"""What tests of supervised training share: pairs, recipes, a tiny model in a folder, records."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest
import torch

pytest.importorskip("trl", reason="needs the extra train")

from kernelwright.core import record, strict
from kernelwright.policy.answer import CODE_BEGIN, CODE_END, PLAN_BEGIN, PLAN_END
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.train.recipe import SupervisedRecipe
from kernelwright.train.run import train_sft

OPS = ("relu", "exp", "tanh", "abs", "neg", "sqrt")


def request(rng, level):
    calls = "\n".join(f"    t{i} = torch.{rng.choice(OPS)}(t{i - 1})" for i in range(1, level + 1))
    return f"Device: sm_90\n{CODE_BEGIN}\n# {rng.randrange(2, 4096)}\n{calls}\n{CODE_END}\n"


def answer(text):
    """The request's calls in another language."""
    calls = [line.strip().replace("torch.", "tl.") for line in text.splitlines() if " = " in line]
    plan = f"{PLAN_BEGIN}\nfuses: {len(calls)}\n{PLAN_END}"
    return "\n".join([plan, CODE_BEGIN, *calls, CODE_END]) + "\n"


def make_rows(number, *, levels=(1, 2, 5), validation=0.1):
    rng = random.Random(0)
    for index in range(number):
        level = levels[index % len(levels)]
        asked = request(rng, level)
        yield {
            "prompt": [{"role": "user", "content": asked}],
            "completion": [{"role": "assistant", "content": answer(asked)}],
            "level": level,
            "source": "teacher",
            "split": "validation" if rng.random() < validation else "train",
            "canonical": "more columns are no matter",
        }


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(rows):
    return [message["content"] for row in rows for message in row["prompt"] + row["completion"]]


def make_tokenizer():
    return train_tokenizer(texts(make_rows(100)), vocabulary=320, max_length=256)


def save_qwen2(folder, tokenizer):
    """A random Qwen2 of a million parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=320, hidden_size=128, intermediate_size=640, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def make_recipe(pairs, **changes):
    """A recipe that trains a fresh model in a second; `changes` are tables, merged in."""
    values = {
        "seed": 1,
        "log_every_steps": 1,
        "model": {
            "fresh": {
                "vocabulary": 320, "hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1,
                "intermediate": 64,
            },
        },
        "data": {"files": [str(pairs)], "max_tokens": 256, "validation_pairs": 8},
        "batch": {"step_tokens": 1024, "micro_tokens": 512},
        "optimizer": {"learning_rate": 1e-2, "warmup_steps": 2},
        "validation": {"every_steps": 6},
        "checkpoints": {"every_steps": 4, "keep": 2},
        "budget": {"steps": 12},
    }  # fmt: skip
    return strict.read(SupervisedRecipe, merged(values, changes))


def merged(values, changes):
    """The settings of a recipe with other values; tables are merged."""
    for table, change in changes.items():
        values[table] = values.get(table, {}) | change if isinstance(change, dict) else change
    return values


def run(recipe, folder, *, resume=False, say=lambda _: None):
    return train_sft(recipe, folder, resume=resume, workers=1, say=say)


def records(folder, kind, name="records.jsonl"):
    return [line for line in record.read(folder / name) if line["record"] == kind]


def script(module, recipe, folder):
    """The text of a process that makes a run.

    Args:
        module: `sft_runs` or `rl_runs`.
        recipe: the arguments of its `make_recipe`, as text.
    """
    return (
        f"from pathlib import Path; import torch; from {module} import make_recipe, run\n"
        "torch.set_num_threads(1)\n"
        f"run(make_recipe({recipe}), Path({str(folder)!r}), say=print)"
    )


def kill_at(step, text):
    """Run a script, and kill it when it reports a step."""
    command, piped = [sys.executable, "-u", "-c", text], {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=_environment(), **piped) as process:
        for line in process.stdout:
            if line.startswith(f"step {step} "):
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL


def _environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def run_in_two(folder, text, *arguments, **environment):
    """Run a script in two processes that talk through gloo.

    Args:
        folder: where the script is written.
    """
    path = folder / "script.py"
    path.write_text(text)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ended = subprocess.run(
        [*launch, str(path), *map(str, arguments)],
        env=_environment() | environment,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


def losses(folder):
    """Step -> loss, to the last bit."""
    return {line["step"]: line["loss"] for line in records(folder, "step")}
