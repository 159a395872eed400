"""Imports of model libraries (timm, transformers): set up, and checked."""

import importlib
import importlib.util
import os
from collections.abc import Iterable

import torch


def prepare() -> None:
    """Keep every library off the network, and make torchvision importable.

    torchvision's wheel from PyPI is compiled for CUDA. With a CPU build of torch, its compiled
    operators do not load. The import then fails at the descriptions of two operators. No classifier
    of torchvision or timm calls these operators, so it is enough to define their schemas.
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
