"""Which sources use torch.compile."""

import pytest

from kernelwright.core.candidate import uses_compile


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("fast = torch.compile(own, fullgraph=True)", True),
        ("fast = torch.compile (own)", True),
        ("fast = torch\\\n.compile(own)", True),
        ("# faster than torch.compile(model)", False),
        ('"""As torch.compile(model)."""', False),
        ("torch.compile(", False),
        ("fast = other.torch.compile(own)", False),
    ],
)
def test_only_a_call_counts(source, expected):
    assert uses_compile(source) is expected
