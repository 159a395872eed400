"""Arguments and inputs are found for classes that say nothing about them but names and layers."""

import enum
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.data.collect import inputs
from kernelwright.data.collect.construct import arguments_for, spelled
from kernelwright.data.collect.guesses import values_by_name
from kernelwright.data.collect.lowered import capture_class
from kernelwright.data.collect.outcome import CollectOutcome, Refused


class Mlp(nn.Module):
    def __init__(self, in_features, hidden_features=None, drop=0.0):
        super().__init__()
        self.up = nn.Linear(in_features, hidden_features or 4 * in_features)
        self.down = nn.Linear(hidden_features or 4 * in_features, in_features)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.down(F.gelu(self.up(x))))


class Residual(nn.Module):
    """Works only where it gives out what it takes."""

    def __init__(self, in_channels, out_channels, kernel_size, act_layer):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        self.norm, self.act = nn.BatchNorm2d(out_channels), act_layer()

    def forward(self, x):
        return x + self.act(self.norm(self.conv(x)))


class Attention(nn.Module):
    """Wants three dimensions, and a mask it may do without."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.heads, self.qkv = n_heads, nn.Linear(d_model, 3 * d_model)

    def forward(self, hidden_states, attention_mask):
        batch, length, width = hidden_states.shape
        parts = self.qkv(hidden_states).view(batch, length, self.heads, -1).chunk(3, -1)
        scores = parts[0].transpose(1, 2) @ parts[1].permute(0, 2, 3, 1)
        if attention_mask is not None:
            scores = scores + attention_mask
        return (scores.softmax(-1) @ parts[2].transpose(1, 2)).reshape(batch, length, width)


class SampleConfig:
    def __init__(self, hidden_size=48, num_hidden_layers=30, vocab_size=99):
        self.hidden_size, self.vocab_size = hidden_size, vocab_size
        self.num_hidden_layers = num_hidden_layers


class SampleModel(nn.Module):
    """Configured by an object that only its name tells of; only optional inputs."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)
        size = config.hidden_size
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(config.num_hidden_layers))

    def forward(self, input_ids=None, attention_mask=None):
        x = self.table(input_ids)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return {"states": x}


class Rates(nn.Module):
    """Cannot be constructed without memory: it reads values of a tensor."""

    def __init__(self, dim):
        super().__init__()
        self.rate, self.layer = torch.linspace(0, 1, 3)[1].item(), nn.Linear(dim, dim)

    def forward(self, x):
        return self.rate * self.layer(x)


class Waits(nn.Module):
    """Measures its width when it is first called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(32)

    def forward(self, x):
        return self.layer(x)


class ByClass(nn.Module):
    def forward(self, logits, target):
        return F.nll_loss(F.log_softmax(logits, 1), target)


class OnAList(nn.Module):
    def forward(self, features: list[torch.Tensor]):
        return torch.cat(features, 1).relu()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "ops", "first_input"),
    [
        (Mlp, ["linear", "gelu", "linear"], "x=float32[8, 256, 512]"),
        (Residual, ["conv2d", "batch_norm", "relu", "add"], "x=float32[8, 64, 32, 32]"),
        (Rates, ["linear", "mul"], "x=float32[8, 256, 256]"),
        (Waits, ["linear"], "x=float32[1024, 1024]"),
        (ByClass, ["log_softmax", "nll_loss"], "logits=float32[1024, 1024], target=int64[1024]"),
        (OnAList, ["cat", "relu"], "features=(float32[1024, 1024], float32[1024, 1024])"),
        (SampleModel, ["embedding", *["linear", "relu"] * 2], "input_ids=int64[8, 256]"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_class_becomes_its_program(cls, ops, first_input):
    captured = capture_class(cls)
    assert [call.op for call in captured.program.calls] == ops
    assert captured.inputs == first_input


def test_inputs_that_forward_looks_into_are_found():
    captured = capture_class(Attention)
    ops = [call.op for call in captured.program.calls]
    assert ops.count("matmul") + ops.count("bmm") == 2
    assert captured.arguments == "d_model=256, n_heads=8"


class NoForward(nn.Module): ...


class Same(nn.Module):
    def forward(self, x):
        return x


class Demanding(Same):
    def __init__(self, dim):
        raise ValueError(f"{dim} will not do")


class Mystery(Same):
    def __init__(self, xyzzy):
        super().__init__()


class Picky(nn.Module):
    def forward(self, x):
        raise RuntimeError("never right")


class Branching(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.parametrize(
    ("cls", "outcome", "detail"),
    [
        (NoForward, CollectOutcome.NO_FORWARD, "no_forward"),
        (Demanding, CollectOutcome.NOT_CONSTRUCTED, "will not do"),
        (Mystery, CollectOutcome.NOT_CONSTRUCTED, "no rule for xyzzy"),
        (Picky, CollectOutcome.NO_INPUTS, "never right"),
        (Branching, CollectOutcome.NOT_CAPTURED, "control flow"),
    ],
)
def test_what_gives_nothing_says_at_which_step(cls, outcome, detail):
    with pytest.raises(Refused, match=detail) as refused:
        capture_class(cls)
    assert refused.value.outcome is outcome


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Nested:
    width: int
    colour: Colour
    extras: tuple[int, ...] = ()


class Typed:
    def __init__(
        self,
        nested: Nested,
        kind: Literal["first", "second"],
        count: int | None,
        sizes: tuple[int, int],
        activation: type[nn.Module],
        part: nn.Module,
        is_causal,
        size=None,
    ): ...


def test_annotations_and_names_choose_arguments():
    found = [spelled(arguments) for arguments in arguments_for(Typed)]
    assert found[0] == (
        "nested=Nested(...), kind='first', count=64, sizes=(64, 64,), activation=ReLU, "
        "part=Linear(...), is_causal=False"
    )
    assert any("is_causal=True" in text and "kind='second'" in text for text in found)
    assert found[-1].endswith("size=64")  # what is None unless given comes last
    assert len(found) == len(set(found))
    nested = next(arguments_for(Typed))["nested"]
    assert nested == Nested(width=256, colour=Colour.RED)


def test_inputs_of_several_parameters_go_together_first():
    examples = list(inputs.examples_for(nn.Bilinear(48, 24, 40)))
    assert len(examples) <= inputs.MAX_TRIES
    spelled_out = [inputs.spelled(example) for example in examples]
    assert len(set(spelled_out)) == len(spelled_out)
    first, second = examples[0]["input1"], examples[0]["input2"]
    assert first == second
    assert any(e["input1"].shape[-1] == 48 and e["input2"].shape[-1] == 24 for e in examples)


def test_what_is_described_is_what_is_made():
    value = inputs.made((inputs.Spec((2, 3)), [inputs.Spec((4,), "int64", 5)], 7, None), "cpu")
    assert value[0].shape == (2, 3)
    assert value[1][0].dtype is torch.int64
    assert 0 <= int(value[1][0].min()) <= int(value[1][0].max()) < 5
    assert value[2:] == (7, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_features", 1024), ("dim_feedforward", 1024), ("d_ff", 1024),
        ("mlp_ratio", 4), ("in_channels", 64), ("planes", 128), ("embed_dim", 256), ("dim", 256),
        ("num_heads", 8), ("n_layers", 2), ("kernel_size", 3), ("qkv_bias", False),
        ("attn_drop", 0.1), ("norm_layer", nn.LayerNorm), ("act_layer", "relu"), ("layer_idx", 0),
    ],
)  # fmt: skip
def test_a_name_says_what_its_words_mean(name, value):
    assert values_by_name(name, alike=False)[0] == value


def test_where_all_widths_are_alike_they_are():
    widths = ("in_channels", "out_features", "hidden_dim", "embed_dim", "dim")
    assert {values_by_name(name, alike=True)[0] for name in widths} == {64}
