"""Control candidates: ours, right or wrong on purpose, to see whether a guest still judges well.

A candidate that took a guest over could compute right outputs for later candidates, or wrong
outputs. Such a candidate cannot know which later candidate is a control: programs, names, sizes
and constants are drawn, and half of the controls must be rejected.
"""

import secrets
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse
from kernelwright.verify.tasks.program_task import ProgramTask, program_task
from kernelwright.verify.trial import Trial

_FORMS = {  # call of PyTorch -> the same in Triton
    "torch.relu({x})": "tl.maximum({x}, 0.0)",
    "torch.sigmoid({x})": "1.0 / (1.0 + tl.exp(-{x}))",
    "torch.exp({x})": "tl.exp({x})",
    "torch.abs({x})": "tl.abs({x})",
    "torch.mul({x}, {x})": "{x} * {x}",
}
_LETTERS = "abcdfghkmnpqrsuvwxyz"
_BLOCKS = (128, 256, 512, 1024)
_ROWS, _COLUMNS = (16, 96), (32, 160)
_WRONG = ("{y} + 0.01", "{y} * 0.97", "tl.where({i} % 7 == 3, 0.25, {y})")
"""Errors of a wrong control."""

_PROGRAM = """\
import torch


def get_inputs():
    x0 = torch.randn({rows}, {columns})
    return [x0]


def fused_operator(x0):
    t0 = {call}
    return [t0]
"""

_CANDIDATE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def {kernel}({x}, {out}, {n}, {block}: tl.constexpr):
    {i} = tl.program_id(0) * {block} + tl.arange(0, {block})
    {value} = tl.load({x} + {i}, mask={i} < {n})
    {y} = {formula}
    tl.store({out} + {i}, {result}, mask={i} < {n})


def fused_operator({x}):
    {x} = {x}.contiguous()
    {out} = torch.empty_like({x})
    {n} = {x}.numel()
    {kernel}[(triton.cdiv({n}, {size}),)]({x}, {out}, {n}, {block}={size})
    return [{out}]
"""


@dataclass(frozen=True, slots=True)
class Control:
    """A candidate of which the right verdict is known."""

    task: ProgramTask
    candidate: Candidate
    is_right: bool

    def is_passed(self, trial: Trial) -> bool:
        """The guest judged the control as it should be judged."""
        return trial.code is (Code.OK if self.is_right else Code.WRONG_VALUES)


def draw() -> Control:
    """Draws a new control, which no candidate can foresee."""
    dice = secrets.SystemRandom()
    call, formula = dice.choice(list(_FORMS.items()))
    is_right = dice.random() < 0.5
    roles = ("kernel", "x", "out", "n", "block", "i", "value", "y")
    names = dict(zip(roles, _names(len(roles)), strict=True))
    names["block"] = names["block"].upper()
    result = "{y}" if is_right else dice.choice(_WRONG)
    source = _CANDIDATE.format(
        **names,
        formula=formula.format(x=names["value"]),
        result=result.format(**names),
        size=dice.choice(_BLOCKS),
    )
    rows, columns = dice.randint(*_ROWS), dice.randint(*_COLUMNS)
    program = _PROGRAM.format(rows=rows, columns=columns, call=call.format(x="x0"))
    return Control(program_task(parse(program)), Candidate(source=source, origin="file"), is_right)


def _names(count: int) -> list[str]:
    """Draws different names without a meaning, none of them a keyword of Python."""
    dice, names = secrets.SystemRandom(), set[str]()
    while len(names) < count:
        # No keyword ends with an underscore.
        names.add("".join(dice.choices(_LETTERS, k=dice.randint(4, 7))) + "_")
    return list(names)
