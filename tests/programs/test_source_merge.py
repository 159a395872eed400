"""Merged sources keep their comments and mean what they meant apart."""

import numpy as np
import pytest

from kernelwright.programs.fragments.source_merge import merge, unmergeable

FIRST = '''"""Plan text."""
import numpy as np

SCALE = 2.0


# plan: doubles
def kernel(x):
    return x * SCALE  # doubled


def fused_operator(x):
    return [kernel(x)]
'''
SECOND = FIRST.replace("2.0", "3.0").replace("doubles", "triples")
SHADOW = """import math


SCALE = 5.0


def kernel(x, SCALE):
    return x * SCALE


def fused_operator(x):
    return [kernel(x, 7.0) + math.floor(SCALE)]
"""


def run(merged):
    scope = {}
    exec("\n".join(merged.imports) + "\n" + merged.body, scope)
    return [scope[names["fused_operator"]](1.0)[0] for names in merged.names]


def test_clashing_names_are_kept_apart():
    merged = merge([("fused_a", FIRST), ("fused_b", SECOND)])
    assert run(merged) == [2.0, 3.0]
    assert [names["fused_operator"] for names in merged.names] == ["fused_a", "fused_b"]
    assert merged.imports == ("import numpy as np",)


def test_comments_travel_with_their_definition():
    body = merge([("a", FIRST), ("b", SECOND)]).body
    assert "# plan: doubles\ndef kernel(x):" in body
    assert "# plan: triples\ndef kernel_2(x):" in body
    assert "# doubled" in body


def test_equal_sources_are_emitted_once():
    merged = merge([("a", FIRST), ("b", FIRST)])
    assert [names["fused_operator"] for names in merged.names] == ["a", "a"]
    assert merged.body.count("def kernel") == 1


def test_equal_helpers_are_emitted_once():
    shared = "def twice(x):\n    return 2 * x\n\n\n"
    first, second = (
        f"{shared}def {name}(x):\n    return twice(x) + {more}\n\n\n"
        f"def fused_operator(x):\n    return [{name}(x)]\n"
        for name, more in (("one", 1), ("ten", 10))
    )
    merged = merge([("a", first), ("b", second)])
    assert run(merged) == [3.0, 12.0]
    assert merged.body.count("def twice") == 1


def test_what_holds_state_or_reads_another_definition_is_shared_by_none():
    counts = "SEEN = []\n\n\ndef fused_operator(x):\n    SEEN.append(x)\n    return [len(SEEN)]\n"
    assert run(merge([("a", counts), ("b", f"import math\n{counts}")])) == [1, 1]
    assert run(merge([("a", FIRST), ("b", SECOND.replace("triples", "doubles"))])) == [2.0, 3.0]


def test_a_parameter_that_shadows_a_renamed_name_stays():
    merged = merge([("a", FIRST), ("b", SHADOW)])
    assert np.allclose(run(merged), [2.0, 12.0])


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        (FIRST, ""),
        ('"""What it does."""\nWIDTH: int = 3\nHALF = OTHER = 2\n' + SECOND, ""),
        ("from numpy import *\n", ""),
        ("from __future__ import annotations\n", "line 1: from __future__ import annotations"),
        ("A, B = 1, 2\n", "line 1: A, B = 1, 2"),
        ("A = 1\nA += 1\n", "line 2: A += 1"),
        ("\nif True:\n    A = 1\n", "line 2: if True:"),
        ("print(1)\n", "line 1: print(1)"),
    ],
)
def test_what_merging_would_lose_is_named(source, lost):
    assert unmergeable(source) == lost


def test_names_are_found_whatever_stands_before_them():
    """Columns are those of bytes, and form feeds end no line."""
    odd = FIRST.replace("    return [kernel(x)]", "    é = '\x0c ü'; return [kernel(x)]")
    assert run(merge([("first", FIRST), ("second", odd.replace("2.0", "3.0"))])) == [2.0, 3.0]


def test_a_statement_that_would_be_lost_is_named_however_long_it_is():
    assert unmergeable("x = 1\nprint(1" + " + 1" * 1500 + ")\n").startswith("line 2: print(1 + 1")
