"""What an attack is, and the source of the candidate that makes it."""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.sandbox.attacks import prelude

BOTH_GRADES = ("fresh", "recycled")
USUAL_GRADES = {"A": ("fresh",), "B": ("fresh",), "C": ("recycled",)}
"""By kind: what an attack is tested in. `tools.attack_sandbox` tries each in both."""

_FUNCTION = """
def fused_operator(x0):
    answer = carry_out({name}, {facts}, x0, {when!r})
    {end}
    return [relu(x0)] if answer is None else answer
"""
_END = 'raise Announced("the attack is over")'
"""Ends a candidate whose attack is over: to judge the rest would take time and tell nothing."""
_MODULE = """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        carry_out({name}, {facts}, self, {when!r})

    def forward(self, x0):
        return relu(x0)
"""
_AT_IMPORT = """
carry_out({name}, {facts}, None, {when!r})
"""
_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
_KERNEL = "\n\n".join(map(inspect.getsource, (prelude.relu_kernel.fn, prelude.relu)))
HONEST = f"{_HEAD}{_KERNEL}\n\ndef fused_operator(x0):\n    return [relu(x0)]\n"
WRONG = HONEST.replace("tl.maximum", "tl.minimum")


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """One hostile candidate."""

    name: str
    kind: str
    """A: leaving the guest; B: the host that reads and cleans up; C: the next candidate."""
    tries: str
    """What it attempts."""
    outside: str
    """What would be seen outside if it worked."""
    body: str
    """The text of the attack: a function of `facts` and the call's input, or a whole source."""
    when: str = "call"
    """"call": the first one with real inputs; "calls": each; "both": the first one in the guest
    that compiles too; "import", in both guests; "init": in the constructor of a ModelNew."""
    hangs: bool = False
    """The judge has to wait for its limit of wall time."""
    reads_source: bool = False
    """The static rules are what is attacked. They are off otherwise: what is beneath is tested."""
    grades: tuple[str, ...]
    """That the tests judge it in."""

    @property
    def is_module(self) -> bool:
        return self.when == "init"

    def source(self, facts: dict[str, Any]) -> str:
        """The candidate.

        Args:
            facts: paths and numbers of the canaries.
        """
        if not self.body.startswith("def "):
            return self.body
        words = {
            "name": self.name,
            "when": self.when,
            "facts": f"json.loads({json.dumps(facts)!r})",
        }
        words["end"] = _END if self.kind == "A" else ""
        entry = {"init": _MODULE, "import": _AT_IMPORT}.get(self.when, _FUNCTION)
        if self.when == "import":
            entry += "\n\ndef fused_operator(x0):\n    return [relu(x0)]\n"
        return f"{inspect.getsource(prelude)}\n\n{self.body}\n{entry.format(**words)}"


ATTACKS: dict[str, Attack] = {}
"""By name, in order of definition."""


def attack(*, kind: str, outside: str, **options: Any) -> Callable[[Any], Any]:
    """Make an attack of a function. Its docstring says what it attempts."""

    def register(function: Any) -> Any:
        text = inspect.getsource(function)
        body = text[text.index("def ") :]
        tries = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
        add(function.__name__, kind, tries, outside, body, **options)
        return function

    return register


def add(name: str, kind: str, tries: str, outside: str, body: str, **options: Any) -> None:
    """Add an attack whose text is not that of a function here."""
    if name in ATTACKS:
        raise ValueError(f"two attacks have the name {name}")
    facts = {"grades": USUAL_GRADES[kind], **options}
    ATTACKS[name] = Attack(name=name, kind=kind, tries=tries, outside=outside, body=body, **facts)
