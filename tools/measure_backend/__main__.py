"""`python -m tools.measure_backend OUT --for SECONDS`, from the root of a checkout, on a GPU.

Each call goes on where the last one ended: twenty batches of one compiled module, training steps,
and 10,000 calls with changing shapes, threads and streams. `kernelwright eval models` measures
calls of inference.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.core import record

DYNAMIC = ("timm/resnet50", "timm/vit_base_patch16_224", "transformers/bert")
TRAINED = ("transformers/bert", "timm/resnet50", "transformers/gpt2")
"""A transformer, a convolutional network, and a network with the head of a language model."""


def jobs() -> list[tuple[str, str, str]]:
    """(model, dtype, phase), in the order in which they are done."""
    listed = [(name, "bfloat16", "batches") for name in DYNAMIC]
    listed += [(name, "float32", "train") for name in TRAINED]
    return [*listed, ("block", "float32", "soak")]


def main(
    out: Path,
    for_s: Annotated[float, typer.Option("--for", help="Seconds; no job begins later.")] = 540.0,
    budget_s: Annotated[float, typer.Option(help="Seconds of search for each graph.")] = 150.0,
) -> None:
    """Measure what OUT/records.jsonl has not."""
    out.mkdir(parents=True, exist_ok=True)
    records, begin_s = out / "records.jsonl", time.monotonic()
    lines = record.read(records) if records.exists() else []
    done = {(line["model"], line["dtype"], line["phase"]) for line in lines}
    for job in jobs():
        left_s = for_s - (time.monotonic() - begin_s)
        if job in done or left_s < budget_s:
            continue
        line = _line(job, out, budget_s, left_s)
        with records.open("a") as file:
            file.write(line + "\n")
        typer.echo(line[:300])


def _line(job: tuple[str, str, str], out: Path, budget_s: float, left_s: float) -> str:
    """The record of a job; a failure is a record too."""
    what = ["soak"] if job[-1] == "soak" else ["measure", *job]
    command = [sys.executable, "-m", f"tools.measure_backend.{what[0]}", *what[1:]]
    command += [str(out / "library"), str(budget_s)]
    name, dtype, phase = job
    # Compile times are compared: neither side may find its code in a cache.
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=left_s,
            check=False,
            env=environment,
        )
        if ended.returncode == 0:
            return ended.stdout.strip().splitlines()[-1]
        why = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired:
        why = "the time was over"
    failed = {"record": "backend_model", "model": name, "dtype": dtype, "phase": phase}
    return json.dumps(failed | {"failed": why})


if __name__ == "__main__":
    typer.run(main)
