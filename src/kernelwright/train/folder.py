"""The folder of a run, and the state in it from which a run continues.

recipe.json      the recipe with all defaults
records.jsonl    the records of the run (train/records.py)
tensorboard/     the same figures
tokenizer/       the tokenizer of a fresh model
tokens/          the pairs as tokens; made again if missing
checkpoints/     for resuming: weights, optimiser, generators, position of the run
best/  last/     weights in Hugging Face's layout: of the best validation, and of the end
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.train import checkpoints
from kernelwright.train.disk import disk_may_be_full
from kernelwright.train.recipe import FREE_TO_CHANGE, changed

STANDING = "standing.json"
"""The file with the state of a run, in each checkpoint and each folder of weights."""
BEST, LAST = "best", "last"


@dataclass(kw_only=True, slots=True)
class Standing:
    """The state of a run that transformers does not save: a part of each checkpoint."""

    step: int = 0
    tokens: int = 0
    """Tokens that were trained on, over all processes, without padding."""
    seconds: float = 0.0
    optimizer_began: int = 0
    """The step at which the optimiser began without a state."""
    best_loss: float | None = None
    """The best validation loss, in supervised training."""
    best_score: float | None = None
    """The best validation score, in reinforcement learning."""
    best_step: int | None = None

    def write(self, folder: Path) -> None:
        (folder / STANDING).write_text(json.dumps(asdict(self)))


class Resolved(Protocol):
    """The interface of recipes, of supervised training and of reinforcement learning."""

    def to_json(self) -> Record: ...


@dataclass(frozen=True, slots=True)
class Start:
    """The state from which a run continues."""

    standing: Standing
    folder: Path | None = None
    """The checkpoint or the folder of weights; None for a new run."""


@dataclass(frozen=True, slots=True)
class EndedPart:
    """How a part of a run ended."""

    standing: Standing
    stopped_by: int | None
    """The signal that ended the run before its budget was used."""
    is_main: bool
    """This process speaks for all processes of the run."""


def open_folder(recipe: Resolved, folder: Path, *, resume: bool) -> None:
    """Write the recipe into a new folder, or check that the run there has the same recipe.

    Settings under `FREE_TO_CHANGE` may differ; the new ones are kept.

    Raises:
        UsageError: the folder is not empty, has no run to resume or a run of another recipe, or
            the disk is full.
    """
    file = folder / "recipe.json"
    if not resume:
        # A recipe alone is from a run that failed before its first record, for want of its data.
        if folder.exists() and {path.name for path in folder.iterdir()} - {file.name}:
            remedy = "--resume goes on with the run in it; or give another --out"
            raise UsageError("the folder is not empty", file=str(folder), remedy=remedy)
        folder.mkdir(parents=True, exist_ok=True)
        _write_recipe(recipe, file)
        return
    if not file.exists():
        raise UsageError("no run to resume", file=str(folder), remedy="leave --resume out")
    # Through JSON, as the recipe in the file went: tuples become lists there.
    before, now = json.loads(file.read_text()), json.loads(json.dumps(recipe.to_json()))
    if other := [
        setting for setting in changed(before, now) if setting.split(".")[0] not in FREE_TO_CHANGE
    ]:
        raise UsageError(
            f"the run was begun with another recipe: {', '.join(other)}",
            file=str(file),
            remedy="resume with the recipe it was begun with, or give another --out",
        )
    _write_recipe(recipe, file)


def _write_recipe(recipe: Resolved, file: Path) -> None:
    """Replace the recipe's file by renaming a new one, so that a full disk leaves the old one."""
    aside = file.with_suffix(".new")
    with disk_may_be_full(file.parent):
        try:
            aside.write_text(json.dumps(recipe.to_json(), indent=2) + "\n")
            os.replace(aside, file)
        finally:
            aside.unlink(missing_ok=True)


def find_start(folder: Path) -> Start:
    """The state from which a run continues.

    This is the newest complete checkpoint. Without a checkpoint, it is the folder `LAST` or `BEST`,
    whichever was trained for more steps. Without weights, the run begins anew. With weights alone
    the optimiser begins without a state, and warms up again. Half-written folders are removed
    first.
    """
    for place in (folder, folder / "checkpoints"):
        checkpoints.clean(place)
    for path in checkpoints.all_checkpoints(folder / "checkpoints"):
        if checkpoints.is_whole(path):
            return Start(_standing(path), path)
    weights = [folder / name for name in (LAST, BEST) if checkpoints.is_whole(folder / name)]
    starts = [Start(_standing(path), path) for path in weights]
    if not starts:
        return Start(Standing())
    furthest = max(starts, key=lambda start: start.standing.step)
    furthest.standing.optimizer_began = furthest.standing.step
    return furthest


def _standing(folder: Path) -> Standing:
    return Standing(**json.loads((folder / STANDING).read_text()))
