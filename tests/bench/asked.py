"""Small problems, and a policy that says what it is told to."""

from kernelwright.bench.answers import Asking
from kernelwright.bench.problems import Problem
from kernelwright.policy.answer import read_answer
from kernelwright.policy.policy import Sampling
from kernelwright.programs.text import parse

TEXT = (
    "import torch\nimport torch.nn.functional as F\n\n\n"
    "def get_inputs():\n    x0 = torch.randn((4, 8), dtype=torch.float32)\n    return [x0]\n\n\n"
    "def fused_operator(x0):\n    t0 = {}\n    return [t0]\n"
)
NO_KERNEL = "```python\ndef fused_operator(x0):\n    return [x0]\n```"


def problem(call="torch.relu(x0)", number=1, suite="set", level="L1"):
    text = TEXT.format(call)
    return Problem(suite=suite, level=level, id=number, text=text, program=parse(text))


class Saying:
    """Answers the same to every request, and raises when it has nothing left to say."""

    name = "saying"

    def __init__(self, *answers, error=None, lasts=99):
        self.answers, self.error, self.lasts = answers, error, lasts
        self.asked = []
        self.num_released = 0

    def write(self, requests, *, samples, sampling):
        if len(self.asked) >= self.lasts:
            raise self.error
        self.asked.append((len(requests), samples, sampling))
        return [[read_answer(text, origin="saying") for text in self.answers] for _ in requests]

    def release(self):
        self.num_released += 1


def asking(policy, samples=1, **options):
    return Asking(
        policy=lambda: policy,
        label=policy.name,
        samples=samples,
        sampling=Sampling(**options),
        precision="strict",
        mode="pure",
    )
