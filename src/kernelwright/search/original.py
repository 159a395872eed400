"""The optimized.py of a target for which no kernel is kept: the original behind the same names."""

from kernelwright.programs.source_merge import rename


def model_original(text: str) -> str:
    """For a file that defines `Model`: the same file with the class named `ModelNew`."""
    return rename(text, {"Model": "ModelNew"})


def factory_original(spec: str) -> str:
    """For "package.module:factory": `attach(module)` gives the factory's module back as it is."""
    return f'''"""No kernel is kept for {spec}: its module computes as before."""


def attach(module):
    """The module that {spec} makes, unchanged."""
    return module
'''
