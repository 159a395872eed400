"""The reference's answers to the inputs of timed calls.

Candidates of one task are timed on the same inputs: whoever times many of them in a row need not
ask the reference, natively and in fp64, about each anew.
"""

from collections import OrderedDict

from kernelwright.core.verdict import Precision
from kernelwright.timing.stages import stage
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.answer import ReferenceAnswer
from kernelwright.verify.tasks.task import Task

MAX_ANSWERS = 4096
"""That are kept, however small."""


class TimedAnswers:
    """Keeps the reference's answers to the inputs of timed calls."""

    def __init__(self, rules: Rules, max_bytes: int = 0) -> None:
        """
        Args:
            max_bytes: of answers that are kept.
        """
        self._rules, self._max_bytes = rules, max_bytes
        self._kept: OrderedDict[tuple[Task, int], ReferenceAnswer | None] = OrderedDict()
        self._num_bytes = 0

    @stage("answer timed calls")
    def of(self, task: Task, seed: int) -> ReferenceAnswer | None:
        """Returns the answer to the plain inputs that `seed` draws. None where the reference draws
        random numbers: calls in a row differ by design then, and are not compared.

        Raises:
            UsageError: the reference fails on them.
        """
        key = task, seed
        if key not in self._kept:
            answer = _answer(task, seed, self._rules)
            if _bytes_of(answer) > self._max_bytes:
                return answer
            self._kept[key] = answer
            self._num_bytes += _bytes_of(answer)
            while self._num_bytes > self._max_bytes or len(self._kept) > MAX_ANSWERS:
                self._num_bytes -= _bytes_of(self._kept.popitem(last=False)[1])
            return answer
        self._kept.move_to_end(key)
        return self._kept[key]


def _answer(task: Task, seed: int, rules: Rules) -> ReferenceAnswer | None:
    inputs = task.inputs(seed, "plain", rules.device)
    if task.is_random(inputs, rules.device):
        return None
    tf32 = rules.precision is Precision.TF32
    return task.expected(inputs, seed, rules.device, tf32=tf32)


def _bytes_of(answer: ReferenceAnswer | None) -> int:
    return 0 if answer is None else answer.num_bytes
