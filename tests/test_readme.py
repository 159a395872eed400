"""The commands and programs of README, tutorial and how-to pages run, and print what pages show.

A block ```console holds commands after "$ " and below each command its output. A block ```python is
a program; a block ```text after the program is its output. "..." in an output stands for any text:
times and folders differ from machine to machine. Blocks of a page run in their order in one folder.
"""

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Step:
    """A command or a program of a page."""

    number: int
    command: str
    """A shell command, or the text of a program."""
    output: str
    is_program: bool = False

    def __str__(self) -> str:
        """The name of the test."""
        first_line = self.command.strip().partition("\n")[0]
        return f"{self.number} {'python' if self.is_program else first_line}"


def steps_of(text: str) -> list[Step]:
    """The commands and programs of a page, in order."""
    steps: list[Step] = []
    for language, block in BLOCK.findall(text):
        number = len(steps) + 1
        if language == "python":
            steps.append(Step(number, block, "", is_program=True))
        elif language == "text":
            program = steps.pop()
            assert program.is_program, "an output stands below its program"
            steps.append(Step(program.number, program.command, block, is_program=True))
        else:
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                steps.append(Step(len(steps) + 1, command, output))
    return steps


PAGES = ("README.md", "docs/tutorial.md", "docs/bfloat16.md", "docs/serving.md")
STEPS = [
    pytest.param(page, step, id=f"{Path(page).stem} {step}", marks=pytest.mark.slow(together=page))
    for page in PAGES
    for step in steps_of((ROOT / page).read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each page an empty folder with the examples that the page names."""
    folders = {page: tmp_path_factory.mktemp("page") for page in PAGES}
    for folder in folders.values():
        (folder / "examples").symlink_to(ROOT / "examples")
    return folders


@pytest.mark.timeout(600)
@pytest.mark.skipif(torch.cuda.is_available(), reason="pages show the output without a GPU")
@pytest.mark.parametrize(("page", "step"), STEPS)
def test_a_step_prints_the_output_that_the_page_shows(page, step, folders):
    command = [sys.executable, "-c", step.command] if step.is_program else step.command
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": "80",
    }
    done = subprocess.run(
        command,
        shell=not step.is_program,
        cwd=folders[page],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert doctest.OutputChecker().check_output(step.output, done.stdout, OPTIONS), done.stdout


def test_steps_are_read_with_their_outputs():
    page = "```console\n$ a\nx\ny\n$ b\n```\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    steps = [(step.command, step.output) for step in steps_of(page)]
    assert steps == [("a", "x\ny\n"), ("b", ""), ("print(1)\n", "1\n")]
