"""Optimized modules on disk: one file of `torch.save`, with facts that are read before the rest."""

import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kernelwright.core import record
from kernelwright.core.errors import UsageError, file_error
from kernelwright.core.record import Record
from kernelwright.search.optimized import delivery_of

FORMAT = 2
FACTS = "kernelwright.json"
"""The member of the archive with the format and the environment of the search."""


def save(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Write an optimized module, weights included, for `load`.

    Raises:
        UsageError: `kernelwright.optimize` did not return the module, the module cannot be pickled,
            or the file cannot be written.
    """
    delivery, place = delivery_of(module), Path(path)
    part = place.with_name(f"{place.name}.part")  # a file of this name is always complete
    facts = {"format": FORMAT, "environment": delivery.environment}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of pickled tree specs
            torch.save(module, part)
        # In the archive itself, so that `load` can read the format before anything is unpickled.
        with zipfile.ZipFile(part, "a") as archive:
            folder = archive.namelist()[0].partition("/")[0]  # PyTorch allows one folder
            archive.writestr(f"{folder}/{FACTS}", json.dumps(facts))
        part.replace(place)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"{delivery.kind.__name__} cannot be saved: {error}",
            remedy="define the class, and all that its modules hold, at the top of an importable"
            " module",
        ) from error
    except (OSError, RuntimeError) as error:  # PyTorch: RuntimeError for a missing folder
        raise _file_error(error, place) from error
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> torch.nn.Module:
    """The optimized module in a file of `save`. The file is unpickled, which runs code in the file:
    load files that you trust. Without a GPU the weights go to the CPU, and the original runs.

    Raises:
        UsageError: there is no such file, the file was damaged or is of another format, or a class
            in the file cannot be imported.

    Warns:
        UserWarning: the kernels were verified on another GPU, or with other versions.
    """
    place = Path(path)
    facts = _facts(place)
    if facts.get("format") != FORMAT:
        raise UsageError(
            f"the format is {facts.get('format')}, and this version reads {FORMAT}",
            file=str(place),
            remedy="save the module again with this version of kernelwright",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            # None leaves each tensor on the device from which it was saved.
            device = None if torch.cuda.is_available() else "cpu"
            module: torch.nn.Module = torch.load(place, map_location=device, weights_only=False)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"a class in the file cannot be imported: {error}",
            file=str(place),
            remedy="make the module that defines the class importable, under the name that it had",
        ) from error
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, KeyError) as error:
        raise UsageError(
            f"the file is damaged: {error}", file=str(place), remedy="save the module again"
        ) from error
    _warn_of_differences(facts["environment"], record.environment())
    return module


def _facts(place: Path) -> Record:
    try:
        with zipfile.ZipFile(place) as archive:
            folder = archive.namelist()[0].partition("/")[0]
            facts: Record = json.loads(archive.read(f"{folder}/{FACTS}"))
            return facts
    except OSError as error:
        raise _file_error(error, place) from error
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError) as error:
        raise UsageError(
            "not a file of kernelwright.save, or a damaged one",
            file=str(place),
            remedy="give a file that kernelwright.save wrote",
        ) from error


def _file_error(error: OSError | RuntimeError, place: Path) -> UsageError:
    known = file_error(error) if isinstance(error, OSError) else None
    return known or UsageError(f"cannot be read or written: {error}", file=str(place))


def _warn_of_differences(saved: Record, here: Record) -> None:
    was, now = _deciding(saved), _deciding(here)
    changed = [name for name in was if was[name] != now[name]]
    different = [f"{name} was {was[name]} and is {now[name]}" for name in changed]
    if different:
        warnings.warn(
            f"kernels were verified elsewhere: {'; '.join(different)}. Optimize the module again to"
            " verify them here",
            UserWarning,
            stacklevel=3,
        )


def _deciding(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a verdict on a kernel depends on."""
    gpu = environment["gpu"]
    versions = {name: environment["versions"][name] for name in ("torch", "triton")}
    # The driver and the memory follow the name; they are no reason to verify again.
    return {"the GPU": gpu and gpu.partition(",")[0], **versions}
