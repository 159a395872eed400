"""All architectures of the suite."""

from fnmatch import fnmatch

from tools.architectures import from_diffusers, from_torch, from_transformers, from_vision
from tools.architectures.architecture import Architecture

LIBRARIES = ("torch", "transformers", "timm", "diffusers", "torchvision")
_SOURCES = (from_torch, from_transformers, from_vision, from_diffusers)


def suite(pattern: str = "*") -> list[Architecture]:
    """The architectures whose name fits a shell pattern, "transformers/*" for example."""
    every = [architecture for source in _SOURCES for architecture in source.architectures()]
    return [tested for tested in every if fnmatch(tested.name, pattern)]
