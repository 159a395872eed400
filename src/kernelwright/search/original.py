"""The optimized.py of a target for which no kernel is kept: the original behind the same names, as
it is or inside torch.compile."""

from kernelwright.programs.source_merge import rename
from kernelwright.search.emit import options_text


def model_original(text: str) -> str:
    """For a file that defines `Model`: the same file with the class named `ModelNew`."""
    return rename(text, {"Model": "ModelNew"})


def model_compiled(text: str, *, moves_layouts: bool = True) -> str:
    """The same, with `forward` inside torch.compile.

    Args:
        moves_layouts: as of `emit.compiled`.
    """
    options = options_text(moves_layouts)
    last = f"ModelNew.forward = torch.compile(ModelNew.forward{options})\n"
    return f"{model_original(text).rstrip()}\n\n\nimport torch\n\n{last}"


def flat_compiled(text: str, *, moves_layouts: bool = True) -> str:
    """For a flat program: the same file, with `fused_operator` inside torch.compile."""
    options = options_text(moves_layouts)
    return f"{text.rstrip()}\n\n\nfused_operator = torch.compile(fused_operator{options})\n"


def factory_original(spec: str) -> str:
    """For "package.module:factory": `attach(module)` gives the factory's module back as it is."""
    return f'''"""No kernel is kept for {spec}: its module computes as before."""


def attach(module):
    """The module that {spec} makes, unchanged."""
    return module
'''


def factory_compiled(spec: str, *, moves_layouts: bool = True) -> str:
    """For "package.module:factory": `attach(module)` has torch.compile compile the module."""
    options = options_text(moves_layouts).removeprefix(", ")
    return f'''"""No kernel is kept for {spec}: torch.compile is the fastest known."""


def attach(module):
    """The module that {spec} makes, inside torch.compile."""
    module.compile({options})
    return module
'''
