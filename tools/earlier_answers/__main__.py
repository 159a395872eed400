"""`python -m tools.earlier_answers collect|judge`, from the root of a checkout.

    python -m tools.earlier_answers collect out examples/*.py
    python -m tools.earlier_answers judge out records.jsonl --earlier ../earlier

The first command writes answers to out/jobs.jsonl. The second one has the judge of another checkout
say which of them are right, and then the judge of this checkout. It resumes what is in the folder.
"""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.core import record
from kernelwright.core.seed import derive
from tools.earlier_answers.collect import collected
from tools.earlier_answers.judging import cases, code_of, judged

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)
JOBS = "jobs.jsonl"
HERE = Path(__file__).parents[2]
Folder = Annotated[Path, typer.Argument(help="The folder of answers and verdicts.")]


@app.command()
def collect(
    folder: Folder,
    modules: Annotated[list[Path] | None, typer.Argument(help="Files of modules.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the teacher's draws.")] = 0,
) -> None:
    """Write the answers of the teacher and of the shipped model."""
    (folder / JOBS).unlink(missing_ok=True)
    record.append(folder / JOBS, collected(modules or [], seed))


@app.command()
def judge(
    folder: Folder,
    records: Annotated[Path, typer.Argument(help="The JSONL file of the records.")],
    earlier: Annotated[Path, typer.Option(help="The checkout of the earlier judge.")],
    fresh: Annotated[int, typer.Option(help="Answers that are judged `fresh` too.")] = 200,
    fault: Annotated[list[str] | None, typer.Option(help="Id of an answer shown wrong.")] = None,
    workers: Annotated[int, typer.Option(help="Judges at once.")] = 1,
) -> None:
    """Judge by both judges, and write a record for each answer and grade."""
    jobs = list(record.read(folder / JOBS))
    before = judged(jobs, folder / "earlier", earlier, "recycled", workers)
    right = [job for job in jobs if code_of(before[job["id"]]) == "ok"]
    some = sorted(right, key=lambda job: derive(0, "fresh", job["id"]))[:fresh]
    judged_now = {
        "recycled": judged(right, folder / "now", HERE, "recycled", workers),
        "fresh": judged(some, folder / "now", HERE, "fresh", workers),
    }
    commit = ["git", "-C", str(earlier), "rev-parse", "--short=12", "HEAD"]
    head = {
        "record": "run",
        "command": f"tools.earlier_answers judge --fresh {fresh}",
        "environment": record.environment(),
        "earlier": subprocess.run(commit, capture_output=True, text=True, check=True).stdout[:-1],
        "answers": len(jobs),
        "accepted_earlier": len(right),
    }
    lines = list(cases(right, judged_now, fault or []))
    records.unlink(missing_ok=True)
    record.append(records, [head, *lines])
    for group, number in sorted(Counter((line["grade"], line["code"]) for line in lines).items()):
        typer.echo(f"{number:5} {' '.join(group)}")


if __name__ == "__main__":
    app()
