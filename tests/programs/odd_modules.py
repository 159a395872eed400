"""Small modules of kinds that real programs have, each with a call of it."""

import enum
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
from torch.nn.utils import parametrizations, parametrize

X = torch.linspace(-2, 2, 12).view(3, 4)
LOWERED: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {}
"""Modules that a capture takes, with positional inputs and inputs by name."""
TABLE = torch.arange(100.0)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def case(*args, parts=None, **kwargs):
    """Register the function below as the forward of a module."""

    def add(function):
        LOWERED[function.__name__] = Call(function, **(parts or {})), args, kwargs
        return function

    return add


class Mode(enum.Enum):
    ADD, MULTIPLY = "add", "multiply"


class Text(enum.StrEnum):
    ADD = "add"


@dataclass
class Out:
    value: torch.Tensor
    extra: Any = None
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    value: torch.Tensor
    scale: float = 1.0


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


Point = namedtuple("Point", "x y")


class State:
    """A cache: grows, and counts its steps."""

    def __init__(self, kept=None):
        self.kept, self.steps, self.dtype = kept, 0, torch.float32
        self.parts = {"layers": []}

    def update(self, value):
        self.kept = value if self.kept is None else torch.cat([self.kept, value])
        self.steps += 1
        self.parts["layers"].append(value)
        return self.kept


@case({"x": X, "rest": [X, (X, None)]})
def nested_inputs(self, given):
    return given["x"] + given["rest"][0] * given["rest"][1][0]


@case(X)
def nested_results(self, x):
    return {"a": [x + 1, None], "b": (x * 2, {"c": 3, "d": "text"}), "e": 1.5, "f": True}


@case(X, mode=Mode.MULTIPLY, text=Text.ADD)
def enumerations(self, x, mode, text):
    return x * 2 if mode is Mode.MULTIPLY and text == "add" else x + 2


@case(X, 2, 0.5, True, "mean", None)
def plain_values(self, x, times, scale, flag, reduction, nothing):
    return getattr(x * times * scale, reduction)() if flag and nothing is None else x


@case(Out(X, {"deep": [X]}, ["n"]))
def dataclass_in_and_out(self, given):
    return Out(given.value + given.extra["deep"][0], extra=(given.value * 2,), names=["a"])


@case(Frozen(X, 3.0))
def frozen_dataclass(self, given):
    return Frozen(given.value * given.scale)


@case(X)
def named_tuples(self, x):
    return Pair(x + 1, Point(x * 2, [x]))


@case(X)
def ordered(self, x):
    return OrderedDict(b=x + 1, a=x * 2)


@case(X, State())
def state_returned(self, x, state):
    return state.update(x) * 2, state


@case(X, State(X))
def state_changed_only(self, x, state):
    state.update(x)
    return state.kept.sum(0)


@case(X, State(X.clone()))
def state_changed_in_place(self, x, state):
    state.kept.mul_(2)
    return x + state.kept


@case(X, [X])
def list_of_tensors_grows(self, x, kept):
    kept.append(x * 2)
    return sum(kept)


@case(X)
def distribution(self, x):
    return torch.distributions.Normal(x, x.abs() + 1, validate_args=False)


@case(X)
def generator_inside(self, x):
    return torch.stack([x * i for i in range(3)]).sum(0) + sum(x[i] for i in range(3))


@case(torch.empty(0, 4))
def zero_size(self, x):
    return torch.relu(x), x.sum()


@case(torch.tensor(2.0), torch.tensor(3))
def zero_rank(self, x, n):
    return x * n + 1, n * 2


@case(X, parts={"weight": nn.Parameter(torch.randn(4, dtype=torch.complex64))})
def complex_parameter(self, x):
    return (x * self.weight).abs()


@case(X.to(torch.complex64))
def complex_input_and_result(self, x):
    return x * 2j, x.conj(), torch.view_as_real(x) * 2


@case(X)
def fourier(self, x):
    return torch.fft.irfft(torch.fft.rfft(x) * 2, n=4) + torch.fft.fft2(x).real


@case(X)
def narrow_floats(self, x):
    return x.to(torch.float8_e4m3fn).float() * 2, x.to(torch.float8_e5m2)


@case(X.to(torch.float8_e4m3fn))
def narrow_float_input(self, x):
    return x.float() * 2


@case(X.abs().to(torch.uint16))
def wide_unsigned(self, x):
    return x.to(torch.int64) * 2, x, x.to(torch.uint32), x.to(torch.uint64)


@case((X * 50).to(torch.uint8))
def image(self, x):
    return (x.float() / 255 - 0.5) / 0.25


def _shared():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


LOWERED["shared_parameters"] = _shared(), (X,), {}


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.cache, self.calls = {}, 0
        self.tables = [torch.arange(100.0), {"b": torch.arange(100.0) * 2}]

    def forward(self, x):
        self.seen.add_(x.sum(0))
        self.calls += 1
        self.cache["last"] = x * 2
        return self.cache["last"] + self.seen + self.tables[0][:4] + self.tables[1]["b"][:4]


LOWERED["buffers_and_plain_attributes"] = Counts(), (X,), {}


@case(X, parts={"layer": nn.Linear(4, 4)})
def checkpointed(self, x):
    return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)


@case(X)
def vmapped(self, x):
    return torch.func.vmap(lambda row: (row * row).sum())(x)


@case(X)
def autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.T


@case(X)
def no_grad_inside(self, x):
    with torch.no_grad():
        y = x * 2
    with torch.inference_mode():
        return y + x


@case(X)
def sizes_as_numbers(self, x):
    return x.view(x.shape[0] * x.size(1)) / len(x) + x.numel()


@case(X, X.T)
def einsum(self, x, y):
    return torch.einsum("ab,bc->ac", x, y)


@case(X, parts={"layer": parametrizations.weight_norm(nn.Linear(4, 4))})
def new_weight_norm(self, x):
    return self.layer(x)


@case(
    X,
    parts={
        "layer": nn.utils.spectral_norm(nn.Linear(4, 4)),
        "other": parametrizations.weight_norm(nn.Linear(4, 4)),
    },
)
def old_spectral_norm_beside_new_weight_norm(self, x):
    return self.other(self.layer(x))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).T


def _symmetric():
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


@case(X, parts={"layer": _symmetric()})
def parametrized(self, x):
    return self.layer(x)


def _hooked():
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda *given: {"hooked": given[-1] * 2})
    layer.register_forward_pre_hook(lambda *given: (given[-1][0] + 1,))
    return layer


LOWERED["hooks"] = _hooked(), (X,), {}


@case(X, parts={"layers": nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Tanh()])})
def module_list(self, x):
    for layer in self.layers[:2]:
        x = layer(x)
    return self.layers[-1](x)


@case(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
def attentions(self, q, k):
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    return (
        F.scaled_dot_product_attention(q, k, k, is_causal=True),
        F.scaled_dot_product_attention(q, k, k, attn_mask=mask, scale=0.5),
        F.scaled_dot_product_attention(q, k[:, :1], k[:, :1], enable_gqa=True),
    )


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):  # noqa: ARG004
        return grad * 2


@case(X)
def autograd_function(self, x):
    return Doubled.apply(x)


@torch.library.custom_op("kernelwright_tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] != 3:
        raise AssertionError("three rows alone")
    return x / 2


@halved.register_fake
def _(x):
    assert x.shape[0] == 3, "three rows alone"
    return torch.empty_like(x)


@case(X)
def operator_of_a_library(self, x):
    return torch.relu(torch.ops.kernelwright_tests.halved(torch.relu(x) * 2)) * 3


@case(X)
def views_changed_in_place(self, x):
    y = x.clone()
    y[:, 1:3] *= 2
    y.view(-1)[::2].add_(1)
    y.t()[0].zero_()
    return y


@case(X)
def strided(self, x):
    return x.as_strided((2, 2), (4, 1)) * 2, x.unfold(1, 2, 1), x.T


@case(X)
def into_out(self, x):
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    return y


@case(X)
def rounded(self, x):
    scale = x.abs().amax() / 127
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale


@case(X)
def table_of_the_module_file(self, x):
    return x + TABLE[:4]


@case(X)
def sorting(self, x):
    return torch.sort(x, descending=True), x.topk(2), x.max(dim=1), x.median()


@case(X, torch.tensor([2, 0]))
def indexing(self, x, i):
    y = x.clone()
    y[i] = 0
    return x[i], x[..., None, :], y, x.index_add(0, i, x[:2]), x.scatter(1, i.view(2, 1), 5.0)


@case(X)
def creation(self, x):
    return torch.arange(4) + x, torch.eye(4), x.new_full((2,), 3.0), torch.linspace(0, 1, 5)


@case(X)
def returns_its_input(self, x):
    return x, x, [x]


@case(X)
def constants_among_results(self, x):
    return {"n": 3, "x": x + 1, "text": "a", "none": None}


@case(X)
def mapped_structures(self, x):
    return tuple(map(torch.relu, (x, x + 1)))


@case(X, parts={"cell": nn.LSTM(4, 5, batch_first=True)})
def recurrent(self, x):
    out, (h, c) = self.cell(x.view(1, 3, 4))
    return out, h, c


REFUSED: dict[str, tuple[nn.Module, tuple[Any, ...], str]] = {}
"""Modules that no capture takes, with their inputs and words of the message."""


def refused(words, *args, module=None):
    def add(function):
        REFUSED[function.__name__] = module or Call(function), args, words
        return function

    return add


@refused("depends on the values", X)
def branch(self, x):
    return x if x.sum() > 0 else -x


@refused("depends on the values", X)
def loop_on_values(self, x):
    while x.abs().max() > 1:
        x = x / 2
    return x


@refused("depends on the values", X)
def where_of_one_argument(self, x):
    return torch.where(x > 0)


@refused("takes a number out", X)
def as_list(self, x):
    return x * x.tolist()[0][0]


@refused("takes a number out|depends on the values", X)
def item(self, x):
    return x * x[0, 0].item()


@refused("in place", X)
def input_changed(self, x):
    x.add_(1)
    return x


@refused("unsupported output type", X)
def generator(self, x):
    return (x * i for i in range(3))


@refused("unsupported output type", X)
def set_of_tensors(self, x):
    return {x + 1}


@refused("unsupported output type", X)
def module_returned(self, x):
    return nn.Linear(4, 4)


@refused("in plain PyTorch too", X)
def wrong_shapes(self, x):
    return x @ x


@refused("in plain PyTorch too: expected 5", X)
def error_of_the_user(self, x):
    raise ValueError("expected 5 rows")


@refused("in plain PyTorch too", X)
def exits(self, x):
    raise SystemExit(0)


@refused("torch.export raised", X)
def jacobian(self, x):
    return torch.func.jacrev(lambda v: (v**2).sum())(x)


@refused("unsupported input type", iter([X]))
def iterator(self, x):
    return next(x)


@refused("unsupported input type", nn.Linear(4, 4))
def module_given(self, x):
    return x(X)


class TwoInputs(nn.Module):
    def forward(self, x, mask=None):
        return x


@refused("does not take these inputs: too many", X, X, X, module=TwoInputs())
def too_many():
    pass


@refused("does not take these inputs: missing", module=TwoInputs())
def too_few():
    pass


class Halves(nn.Module):
    def forward(self, x):
        return x * 2


@refused("ScriptModule", X, module=nn.Sequential(torch.jit.trace(Halves(), X)))
def scripted():
    pass


@refused("sparse_coo is not supported", X.to_sparse())
def sparse(self, x):
    return x.to_dense() * 2


@refused("cond is not a tensor operator", X)
def condition(self, x):
    return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))


@refused("depends on the values", X)
def masked(self, x):
    return x[x > 0]


@refused("depends on the values|torch.export raised", X)
def numpy_inside(self, x):
    return x + torch.from_numpy(x.numpy() * 2)
