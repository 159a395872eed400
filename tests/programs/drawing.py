"""Random small programs over every kind of operator, for property tests."""

import random

from hypothesis import strategies as st

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program, Ref

UNARY = ("relu", "sigmoid", "tanh", "gelu", "exp", "neg", "abs", "softplus")
INITS = (
    Init("randn"),
    Init("randn", 0.25, 0.5),
    Init("rand"),
    Init("rand", 0.1, 0.7),
    Init("sign"),
)


class Drawing:
    """A program grown one call at a time; `values` are what the next call may read."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.builder = Builder()
        self.values: list[Ref] = []
        rank = self.rng.randint(1, 4)
        layout = (
            Layout.CHANNELS_LAST if rank == 4 and self.rng.random() < 0.3 else Layout.CONTIGUOUS
        )
        self.input(tuple(self.rng.randint(2, 5) for _ in range(rank)), layout=layout)

    def input(self, shape: tuple[int, ...], layout: Layout = Layout.CONTIGUOUS) -> Ref:
        ref = self.builder.input(TensorType(shape, "float32", layout), self.rng.choice(INITS))
        self.values.append(ref)
        return ref

    def type(self, ref: Ref) -> TensorType:
        return self.builder.types[ref.name]

    def add(self, op: str, /, **values: object) -> None:
        self.values.extend(self.builder.call(op, **values))

    def step(self) -> None:
        x = self.rng.choice([v for v in self.values if self.type(v).dtype == "float32"])
        shape = self.type(x).shape
        rank = len(shape)
        steps = [self.unary, self.binary, self.scaled]
        if rank >= 1:
            steps += [
                self.reduction,
                self.extreme,
                self.softmax,
                self.linear,
                self.pieces,
                self.sort,
            ]
        if rank >= 2:
            steps += [self.transpose, self.flatten, self.layer_norm]
        if rank == 4 and min(shape[2:]) >= 3 and max(shape) < 30:
            steps += [self.conv] * 3
        self.rng.choice(steps)(x, shape)

    def unary(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add(self.rng.choice(UNARY), input=x)

    def scaled(self, x: Ref, shape: tuple[int, ...]) -> None:
        op = self.rng.choice(("add", "sub", "mul", "div", "maximum_clamp", "gt_where"))
        if op == "maximum_clamp":
            self.add("clamp", input=x, min=-0.5, max=self.rng.choice((None, 1.5)))
        elif op == "gt_where":
            (mask,) = self.builder.call("gt", input=x, other=0.1)
            self.add("masked_fill", input=x, mask=mask, value=float("-1.5"))
        else:
            self.add(op, input=x, other=self.rng.choice((2, 0.5, 1e-3)))

    def binary(self, x: Ref, shape: tuple[int, ...]) -> None:
        same = [v for v in self.values if self.type(v) == self.type(x)]
        if self.rng.random() < 0.5:
            other = self.rng.choice(same)
        else:
            kept = self.rng.randint(0, len(shape))
            other = self.input(tuple(self.rng.choice((1, s)) for s in shape[kept:]))
        self.add(self.rng.choice(("add", "sub", "mul", "maximum")), input=x, other=other)

    def reduction(self, x: Ref, shape: tuple[int, ...]) -> None:
        dim = self.rng.randrange(-len(shape), len(shape))
        self.add(
            self.rng.choice(("sum", "mean")), input=x, dim=dim, keepdim=self.rng.random() < 0.5
        )

    def extreme(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("max", input=x, dim=self.rng.randrange(len(shape)), keepdim=True)

    def softmax(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("softmax", input=x, dim=self.rng.randrange(len(shape)))

    def linear(self, x: Ref, shape: tuple[int, ...]) -> None:
        width = self.rng.randint(1, 6)
        weight = self.input((width, shape[-1]))
        bias = {"bias": self.input((width,))} if self.rng.random() < 0.5 else {}
        self.add("linear", input=x, weight=weight, **bias)

    def conv(self, x: Ref, shape: tuple[int, ...]) -> None:
        width = self.rng.randint(1, 4)
        weight = self.input((width, shape[1], 3, 3))
        bias = {"bias": self.input((width,))} if self.rng.random() < 0.7 else {}
        self.add("conv2d", input=x, weight=weight, padding=self.rng.choice((0, 1)), **bias)

    def layer_norm(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("layer_norm", input=x, normalized_shape=shape[-1:])

    def transpose(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("transpose", input=x, dim0=-1, dim1=-2)

    def flatten(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("reshape", input=x, shape=(shape[0], *((-1,) if len(shape) > 1 else ())))

    def pieces(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("chunk", input=x, chunks=2, dim=self.rng.randrange(len(shape)))

    def sort(self, x: Ref, shape: tuple[int, ...]) -> None:
        self.add("aten.sort.default", self=x, dim=self.rng.randrange(len(shape)))

    def program(self) -> Program:
        read = {name for call in self.builder.calls for name in call.refs()}
        last = [v for v in self.values if v.name not in read and v.name.startswith("t")]
        extra = [v for v in self.values if v not in last and self.rng.random() < 0.15]
        return self.builder.program([*last, *extra])


def draw_program(seed: int, num_steps: int = 6) -> Program:
    """A program of at least `num_steps` calls; equal seeds give equal programs."""
    drawing = Drawing(seed)
    for _ in range(num_steps):
        drawing.step()
    return drawing.program()


def programs(max_steps: int = 8) -> st.SearchStrategy[Program]:
    return st.builds(draw_program, st.integers(0, 2**40), st.integers(1, max_steps))
