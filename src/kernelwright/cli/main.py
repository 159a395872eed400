"""The `kernelwright` command: verbs, and errors as exit codes.

0: done or accepted. 1: rejected. 2: bad usage or input. 3: our own failure. 4: the time of `--for`
ended, and cases are left. 128 plus the number of a signal: an interruption. Verbs import torch only
when they run, so `--help` and `ops` start at once.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import typer
from typer.main import get_command

from kernelwright import __version__
from kernelwright.cli import (
    console,
    doctor,
    failures,
    generate,
    library,
    lint,
    ops,
    optimize,
    report,
    signals,
    synth,
    verbs,
    verify,
    verify_many,
)
from kernelwright.cli.console import out, stdout_for_json
from kernelwright.cli.data.app import app as data
from kernelwright.cli.suites.app import app as suites
from kernelwright.cli.train.app import app as train
from kernelwright.cli.verbs import NAME
from kernelwright.sandbox.host import supervised

SUPERVISED = frozenset({"optimize", "verify", "lint"})
"""Verbs that load references or targets: these must not end or hang the command."""
HELP = frozenset({"-h", "--help"})
COMPLETION_VARIABLE = "_KERNELWRIGHT_COMPLETE"
"""The shell sets this environment variable where it asks for completions."""

app = verbs.group(
    NAME,
    "PyTorch programs in, verified fast Triton kernels out.",
    "optimize.md",
    ("Speed up a model", "optimize model.py"),
    ("Judge kernels of somebody else", "verify reference.py candidate.py"),
    ("See what works on this machine", "doctor"),
)
verbs.add(
    app,
    "optimize",
    optimize.command,
    "optimize.md",
    ("Optimize the model in a file", "model.py"),
    ("Take two minutes, and name the folder", "model.py --budget 120 -o fast"),
    ("Optimize the module of a factory", "package.models:block"),
)
verbs.add(
    app,
    "generate",
    generate.command,
    "policies.md",
    ("See what the default policy writes", "program.py"),
    ("Write three answers with one policy", "program.py -n 3 --policy embedded"),
)
verbs.add(
    app,
    "verify",
    verify.command,
    "verifier.md",
    ("Judge kernels against a reference", "reference.py candidate.py"),
    ("Judge the result of optimize", "model.py out/model/optimized.py"),
    ("See which kernels are right", "reference.py candidate.py --mode pure --steps"),
    ("Allow no library calls", "reference.py candidate.py --mode pure"),
)
verbs.add(
    app,
    "verify-many",
    verify_many.command,
    "verifier.md",
    ("Judge a file of jobs", "jobs.jsonl -o run"),
    ("Reuse processes", "jobs.jsonl -o run --grade recycled"),
)
verbs.add(
    app,
    "lint",
    lint.command,
    "lint.md",
    ("Check one task", "model.py"),
    ("Check a folder, and keep the records", "tasks -o lint.jsonl"),
)
verbs.add(
    app,
    "ops",
    ops.command,
    "architecture.md",
    ("List all operators", ""),
    ("List one family as JSON", "--family pointwise --json"),
)
verbs.add(
    app,
    "doctor",
    doctor.command,
    "trust.md",
    ("Check this machine", ""),
    ("Check it from a script", "--json"),
)
verbs.add(
    app,
    "report",
    report.command,
    "site.md",
    ("Write the page of a run again", "out/model"),
    ("Compare training runs", "run-a run-b"),
    ("Write a site of several runs", "results/*.jsonl run --out site"),
)
for group in (synth.app, data, train, suites, library.app):
    app.add_typer(group)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Show the version and exit.",
    ),
) -> None:
    """PyTorch programs in, verified fast Triton kernels out."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; `argv` is the process's own by default."""
    words = list(sys.argv[1:] if argv is None else argv)
    console.escape_what_cannot_be_encoded()
    if COMPLETION_VARIABLE in os.environ:
        get_command(app).main(args=words, prog_name=NAME)
    if argv is None and supervised.attach():
        with signals.interrupting():
            code = run(words)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        supervised.done(code)
    elif argv is None and words[:1] and words[0] in SUPERVISED and not HELP & {*words}:
        code = _supervise(words)
    else:
        with signals.interrupting():
            code = run(words)
    sys.exit(code)


def _supervise(words: list[str]) -> int:
    """Run a verb that loads the user's code, in a child process."""
    as_json = "--json" in words
    with stdout_for_json() if as_json else nullcontext():
        try:
            return supervised.supervise(supervised.command_again(words))
        except Exception as error:
            return failures.show(error, as_json=as_json)


def run(words: list[str]) -> int:
    """Run one command; return its exit code. All errors are printed here."""
    as_json = "--json" in words
    with stdout_for_json() if as_json else nullcontext():
        try:
            command = get_command(app)
            with command.make_context(NAME, words.copy()) as context:
                command.invoke(context)
        except typer.Exit as ended:
            return signals.exit_code() or ended.exit_code
        except (KeyboardInterrupt, typer.Abort):
            code = signals.exit_code() or signals.SIGNALLED
            return failures.show_interrupted(_verb(words), code, as_json=as_json)
        except BrokenPipeError:  # the reader of a pipe has read enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
            return 1
        except Exception as error:
            return failures.show(error, as_json=as_json)
        return signals.exit_code()


def _verb(words: list[str]) -> str:
    """The words that name the verb: "data build"."""
    first = [word for word in words if not word.startswith("-")][:2]
    is_group = first[:1] and first[0] in {"data", "train", "eval"}
    return " ".join(first if is_group else first[:1]) or NAME


if __name__ == "__main__":
    main()
