"""The model libraries that this machine has."""

import importlib
import importlib.util
import os
from collections.abc import Iterable

import torch


def prepare() -> None:
    """Keep every library off the network, and let torchvision's Python part import.

    torchvision's wheel from PyPI is compiled for CUDA. Beside a CPU build of torch its compiled
    operators do not load, and the import fails where it describes two of them. No classifier of
    torchvision or timm calls these two, so their schemas suffice.
    """
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if importlib.util.find_spec("torchvision") is None or torch.version.cuda is not None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )


def missing(libraries: Iterable[str]) -> dict[str, str]:
    """Library that cannot be imported -> the reason."""
    reasons = {}
    for library in libraries:
        try:
            importlib.import_module(library)
        except Exception as error:  # a broken installation may raise anything
            first = str(error).splitlines()[0] if str(error) else ""
            reasons[library] = f"{type(error).__name__}: {first}"
    return reasons
