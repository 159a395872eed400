"""`python -m tools.dry_run OUT --for SECONDS`, from the root of a checkout, on a GPU.

Do the recipes of large models fit, and how fast are their parts? Models have the sizes of
Qwen2.5-Coder and random weights, so nothing is downloaded and nothing is learned. Each call goes on
where the last call ended. OUT/records.jsonl has a line for each job: peak memory, tokens a second,
seconds of the parts of a step, or the end of the error.

The tokenizer is the embedded model's, with unused tokens up to the vocabulary of Qwen2.5-Coder,
which decides the memory of the last layer.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from kernelwright.core import record
from kernelwright.core.record import Record
from kernelwright.policy.embedded import WEIGHTS

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "recipes"
SPARE = 100
"""Rows of the first layer without a token. The tokenizer's class adds tokens when it is loaded."""
LEAST_S = 60.0
"""A job that has less time is left for the next call."""
ERROR_CHARS = 1_500


@dataclass(frozen=True, slots=True)
class Size:
    """Widths of a Qwen2 model, as its published config.json has them."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    is_tied: bool
    """The first and the last layer share their weights."""


SIZES = {
    "0.5b": Size(896, 24, 14, 2, 4864, 151_936, True),
    "1.5b": Size(1536, 28, 12, 2, 8960, 151_936, True),
    "7b": Size(3584, 28, 28, 4, 18_944, 152_064, False),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A training of a few steps."""

    name: str
    size: str
    command: str
    """ "sft" or "rl"."""
    recipe: Path
    settings: tuple[str, ...]


_FEW = ("budget.epochs=3", "validation.every_steps=1000", "checkpoints.every_steps=1000")
_WHOLE = (
    'data.files=["pairs"]',
    "data.sources={}",
    'model.loss_head="chunked"',
    "model.gradient_checkpointing=true",
    "data.max_tokens=8192",
    "batch.step_tokens=32768",
    "batch.micro_tokens=8192",
)
_POOL = (
    'rollouts.policy="pool:pool"',
    'objective.reward="modelled"',
    "judging.timing=false",
    "rollouts.programs=4",
    "rollouts.group=4",
)
_WRITING = (
    "budget.steps=1",
    'rollouts.policy="local"',
    'rollouts.served=""',
    "rollouts.ahead=0",
    "rollouts.programs=8",
    "rollouts.max_tokens=1024",
    "objective.updates=1",
    "programs.draw={1=64}",
    "curriculum.stages=[]",
    "validation.every_steps=1000",
    "validation.programs=4",
)
JOBS = (
    Job("sft-lora-7b", "7b", "sft", RECIPES / "sft" / "lora-7b.toml", _FEW),
    Job("sft-1.5b", "1.5b", "sft", RECIPES / "sft" / "expert.toml", (*_FEW, *_WHOLE)),
    Job("rl-pool-1.5b", "1.5b", "rl", RECIPES / "rl" / "pool.toml", (*_FEW, *_POOL)),
    Job("rl-writing-1.5b", "1.5b", "rl", RECIPES / "rl" / "qwen-1.5b.toml", _WRITING),
    Job("rl-writing-0.5b", "0.5b", "rl", RECIPES / "rl" / "qwen-0.5b.toml", _WRITING),
)


def main(
    out: Path,
    for_s: Annotated[float, typer.Option("--for", help="Seconds; no job begins later.")] = 540.0,
) -> None:
    """Run the jobs that OUT/records.jsonl lacks."""
    out.mkdir(parents=True, exist_ok=True)
    records, end_s = out / "records.jsonl", time.monotonic() + for_s
    done = {line["job"] for line in record.read(records)} if records.exists() else set()
    prepare(out, end_s - time.monotonic())
    for job in JOBS:
        left_s = end_s - time.monotonic()
        if job.name in done or left_s < LEAST_S:
            continue
        line = run(job, SIZES[job.size], out, left_s)
        record.append(records, [line])
        typer.echo(json.dumps(line)[:400])
        shutil.rmtree(out / "models" / job.size, ignore_errors=True)  # the disk has room for one


def prepare(out: Path, for_s: float) -> None:
    """Pairs and a pool of the embedded model, in OUT; what is there stays."""
    commands = [
        ["data", "build", str(RECIPES / "data" / "smoke.toml"), "--out", "pairs"],
        [
            "synth", "--level", "1,2", "--num", "8", "--recipe",
            str(RECIPES / "pool" / "programs.toml"), "-o", "programs.jsonl",
        ],
        [
            "data", "pool", str(RECIPES / "pool" / "smoke.toml"), "--out", "pool",
            "--set", "judging.timing=false",
        ],
    ]  # fmt: skip
    for command in commands:
        subprocess.run(_kernelwright(command), cwd=out, check=True, timeout=for_s)


def run(job: Job, size: Size, out: Path, for_s: float) -> Record:
    """The record of a job; a failure is a record too."""
    model = out / "models" / job.size
    save_model(model, size)
    folder = out / "runs" / job.name
    shutil.rmtree(folder, ignore_errors=True)
    settings = (f'model.path="{model.resolve()}"', *job.settings)
    options = [word for setting in settings for word in ("--set", setting)]
    command = ["train", job.command, str(job.recipe), "--out", str(folder.resolve()), *options]
    line: Record = {"record": "dry_run", "job": job.name, "size": job.size, "settings": settings}
    try:
        ended = subprocess.run(
            _kernelwright(command),
            cwd=out,
            check=False,
            timeout=for_s,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return line | {"error": f"took over {for_s:.0f} s"}
    if ended.returncode:
        return line | {"error": ended.stderr[-ERROR_CHARS:]}
    return line | figures(list(record.read(folder / "records.jsonl")))


def figures(lines: Sequence[Record]) -> Record:
    """Memory, rates and parts of steps, from the records of a run."""
    steps = [line for line in lines if line["record"] in ("step", "rl_step")]
    summary = next((line for line in lines if line["record"] == "summary"), {})
    last = steps[-1] if steps else {}
    return {
        "steps": len(steps),
        "tokens_per_s": last.get("tokens_per_s"),
        "tokens": last.get("tokens"),
        "seconds": last.get("seconds"),
        "gpu_peak_bytes": summary.get("gpu_peak_bytes"),
        "environment": record.environment(),
    }


def save_model(folder: Path, size: Size) -> None:
    """Random weights of a size in bfloat16, with a tokenizer of that size."""
    if (folder / "config.json").exists():
        return
    tokenizer = large_tokenizer(size.vocabulary)
    config = Qwen2Config(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        tie_word_embeddings=size.is_tied,
        max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = Qwen2ForCausalLM(config).bfloat16()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def large_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """The embedded model's tokenizer, with unused tokens: a few less than `vocabulary`."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(WEIGHTS)
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    unused = range(len(tokenizer), vocabulary - SPARE)
    content["model"]["vocab"] |= {f"<unused {number}>": number for number in unused}
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    return tokenizer


def _kernelwright(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "kernelwright.cli.main", *words]


if __name__ == "__main__":
    typer.run(main)
