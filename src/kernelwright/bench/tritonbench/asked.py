"""Sends the benchmark's own instructions to a model, and keeps the answers as predicted files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.bench.tritonbench.checkout import BenchFile
from kernelwright.bench.tritonbench.predictions import code_of
from kernelwright.bench.tritonbench.stages import lines_of
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.text import encodable
from kernelwright.policy.endpoint import Message
from kernelwright.policy.policy import ChatPolicy, Policy, Sampling

ASKED, PREDICTIONS = "asked.jsonl", "predictions"
"""In the folder of a run: the file with the questions' settings, and the folder of answers."""
AT_ONCE = 32
"""The number of questions whose answers are written together. A run that is killed loses at most
these answers."""
SYSTEM = (
    "Answer with one block of Python code: the kernels with @triton.jit, and functions that call"
    " them under the names that are asked for. Write no tests."
)
"""The system message: the form of an answer. The user message is the benchmark's instruction."""


def ask_instructions(
    policy: Callable[[], Policy],
    files: Sequence[BenchFile],
    instructions: dict[str, str],
    out: Path,
    sampling: Sampling,
    settings: Record,
    say: Say,
) -> Path:
    """Ask a policy for the code of each task that has no predicted file, and write the files.

    A task without an instruction, or with an empty answer, gets no file.

    Args:
        policy: loads the policy. The policy is loaded only if a question is left.
        files: the tasks.
        instructions: file's name -> instruction.
        out: the folder of the run.
        sampling: settings of the decoding.
        settings: the settings of the questions, which must not change when the run is resumed.
        say: gets a line of progress before each batch of questions.

    Returns:
        The folder of the files.

    Raises:
        UsageError: the policy answers only programs, or the folder has answers to questions with
            other settings.
        InfraError: the policy failed. Its earlier answers are in the folder.
    """
    folder = out / PREDICTIONS
    head: Record = {"record": "run", "command": "eval tritonbench: answers", "options": settings}
    lines_of(out / ASKED, head)
    folder.mkdir(parents=True, exist_ok=True)
    left = [f for f in files if f.name in instructions and not (folder / f.name).exists()]
    if not left:
        return folder
    model = policy()
    if not isinstance(model, ChatPolicy):
        raise UsageError(
            f"{model.name} answers no instructions",
            remedy="give a model, for example openai:URL#model, or --channel T",
        )
    for first in range(0, len(left), AT_ONCE):
        batch = left[first : first + AT_ONCE]
        say(f"{first} of {len(left)} instructions answered")
        questions = [
            [Message("system", SYSTEM), Message("user", instructions[file.name])] for file in batch
        ]
        answers = model.chat(questions, samples=1, sampling=sampling)
        for file, texts in zip(batch, answers, strict=True):
            if texts and texts[0].strip():
                (folder / file.name).write_text(encodable(code_of(texts[0])), encoding="utf-8")
    model.release()
    return folder
