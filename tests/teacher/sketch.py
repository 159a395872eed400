"""Programs for tests, written a line a call."""

from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref


class Sketch:
    """A program under way: `s.relu(x)` adds a call and is its first result."""

    def __init__(self) -> None:
        self.builder = Builder()

    def input(self, *shape: int, dtype: str = "float32") -> Ref:
        return self.builder.input(TensorType(shape, dtype))

    def __getattr__(self, op: str):
        def call(*tensors: Ref, **values: object) -> Ref:
            names = [p.name for p in operators()[op].params]
            given = dict(zip(names, tensors, strict=False))
            return self.builder.call(op, **given, **values)[0]

        return call

    def program(self, *outputs: Ref) -> Program:
        return self.builder.program(list(outputs))
