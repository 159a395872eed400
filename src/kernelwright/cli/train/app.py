"""`kernelwright train`: make models that write kernels."""

from pathlib import Path

from kernelwright.cli import verbs
from kernelwright.cli.checks import check_file
from kernelwright.cli.console import progress
from kernelwright.cli.options import JsonOption, cores
from kernelwright.cli.train.options import (
    ChangesOption,
    FolderOption,
    PairsRecipeArgument,
    ResumeOption,
    VerdictsRecipeArgument,
    WorkersOption,
    show_end,
)
from kernelwright.core.folders import check_folder

app = verbs.group(
    "train",
    "Train models that write kernels.",
    "sft.md",
    ("Train on pairs", "sft recipes/sft/smoke.toml -o run"),
    ("Train on verdicts", "rl recipes/rl/smoke.toml -o run-rl"),
)


def sft(
    recipe: PairsRecipeArgument,
    folder: FolderOption,
    changes: ChangesOption = None,
    resume: ResumeOption = False,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Train a model on pairs of programs and answers.

    Ctrl-C or SIGTERM ends the run after the step that it is in, and writes a checkpoint. The option
    --resume goes on from there. On several GPUs, start the run with
    `accelerate launch -m kernelwright.cli.main train sft ...`.
    """
    with progress("train sft") as say:
        _check(recipe, folder)
        from kernelwright.train.recipe import SupervisedRecipe
        from kernelwright.train.run import train_sft

        loaded = SupervisedRecipe.load(recipe, changes or ())
        ended = train_sft(loaded, folder, resume=resume, workers=cores(workers), say=say)
    loss = ended.standing.best_loss
    show_end(ended, folder, "" if loss is None else f"best validation loss {loss:.4f}", json=json)


def rl(
    recipe: VerdictsRecipeArgument,
    folder: FolderOption,
    changes: ChangesOption = None,
    resume: ResumeOption = False,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Train a model on the verdicts on its answers.

    Ctrl-C or SIGTERM ends the run after the step that it is in, and writes a checkpoint. The option
    --resume goes on from there. On several GPUs, start the run with
    `accelerate launch -m kernelwright.cli.main train rl ...`.
    """
    with progress("train rl") as say:
        _check(recipe, folder)
        from kernelwright.train.rl.recipe import RlRecipe
        from kernelwright.train.rl.run import train_rl

        loaded = RlRecipe.load(recipe, changes or ())
        ended = train_rl(loaded, folder, resume=resume, workers=cores(workers), say=say)
    score = ended.standing.best_score
    show_end(ended, folder, "" if score is None else f"best validation {score:.3f}", json=json)


def _check(recipe: Path, folder: Path) -> None:
    """Check recipe, folder and libraries, before torch is imported."""
    check_file(recipe, "give a recipe in TOML: docs/sft.md and docs/rl.md say what it holds")
    check_folder(folder)
    from kernelwright.train.installed import check_installed

    check_installed()


verbs.add(
    app,
    "sft",
    sft,
    "sft.md",
    ("Train on pairs", "recipes/sft/smoke.toml -o run"),
    ("Change a setting", "recipe.toml -o run --set optimizer.clip=0.5"),
    ("Go on after an interruption", "recipe.toml -o run --resume"),
)
verbs.add(
    app,
    "rl",
    rl,
    "rl.md",
    ("Train on verdicts", "recipes/rl/smoke.toml -o run-rl"),
    ("Go on after an interruption", "recipe.toml -o run-rl --resume"),
)
