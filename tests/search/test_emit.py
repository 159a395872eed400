"""Files of results that are written from a user's file."""

from kernelwright.search.module.emit import flat_file


def test_a_flat_file_loses_every_definition_of_its_entry_and_nothing_else():
    source = '''"""About."""
import torch

@torch.no_grad()
def fused_operator(x):
    return [x]

ONE = 1

def fused_operator(x):
    return [x + ONE]

def get_inputs():
    return [torch.ones(ONE)]
'''
    text = flat_file(source, "def fused_operator(x):\n    return [x * 2]\n")
    space = {}
    exec(text, space)
    assert text.count("def fused_operator") == 1
    assert "no_grad" not in text
    assert space["fused_operator"](3) == [6]
    assert space["get_inputs"]()[0].tolist() == [1.0]
