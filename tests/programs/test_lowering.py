"""Modules become programs that compute what the modules compute, on the CPU and on meta."""

import copy
from functools import cache

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import Layout
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.text import parse, to_text


class Bottleneck(nn.Module):
    """A residual block as torchvision writes it."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4 * width, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x
        return self.relu(out)


class Structured(nn.Module):
    """Nested inputs and outputs, a constant, a flag, a cast that does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, batch, flag=True, *, mask=None, unused=None):
        x = batch["x"].float().contiguous() * self.scale
        if flag:
            x = x + torch.tensor([1.0, 0.0, 2.0])
        if mask is not None:
            x = x.masked_fill(mask, 0.5)
        return {"y": (x, None), "n": 3, "same": batch["x"]}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1, :])


def llama():
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=1, vocab_size=64,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    x = torch.randn(2, 6, 32)
    position = LlamaRotaryEmbedding(config)(x, torch.arange(6)[None])
    return LlamaDecoderLayer(config, 0).eval(), (x,), {"position_embeddings": position}


def bert():
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=1
    )
    config._attn_implementation = "sdpa"
    return BertLayer(config).eval(), (torch.randn(2, 6, 32),), {}


def mlp():
    layers = [nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 3)]
    return nn.Sequential(*layers, nn.Softmax(dim=-1)).eval(), (torch.randn(4, 6),), {}


MODULES = {
    "mlp": mlp,
    "block_eval": lambda: (Bottleneck().eval(), (torch.randn(2, 32, 5, 5),), {}),
    "block_train": lambda: (Bottleneck().train(), (torch.randn(2, 32, 5, 5),), {}),
    "structured": lambda: (
        Structured(), ({"x": torch.randn(2, 3)},), {"mask": torch.tensor([True, False, True])},
    ),
    "lstm": lambda: (Recurrent(), (torch.randn(2, 7, 6),), {}),
    "llama": llama,
    "bert": bert,
}  # fmt: skip


@cache
def lowered_program(name: str) -> Program:
    torch.manual_seed(0)
    module, args, kwargs = MODULES[name]()
    return lower(module, args, kwargs).program


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_program_computes_what_its_module_computes(name):
    torch.manual_seed(0)
    module, args, kwargs = MODULES[name]()
    lowered = lower(module, args, kwargs)
    before = copy.deepcopy(module)
    outputs = run(lowered.program, lowered.gather(before, args, kwargs))
    with torch.no_grad():
        expected = module(*args, **kwargs)
    ours, spec = pytree.tree_flatten(lowered.rebuild(outputs))
    theirs, wanted = pytree.tree_flatten(expected)
    assert spec == wanted
    torch.testing.assert_close(ours, theirs)
    for position, buffer in lowered.mutations:
        torch.testing.assert_close(outputs[position], module.get_buffer(buffer))
    assert bool(lowered.mutations) == (name == "block_train")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_text_of_a_lowered_program_reads_back(name):
    program = lowered_program(name)
    assert parse(to_text(program)) == program


@pytest.mark.parametrize("name", MODULES)
def test_fresh_inputs_give_finite_varied_results(name):
    program = lowered_program(name)
    for result in run(program, make_inputs(program, 0)):
        assert result.isfinite().all()
        assert result.numel() == 1 or result.double().std() > 1e-3
    assert not {"ones", "zeros"} & {value.init.kind for value in program.inputs}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "block_train", "lstm", "llama"])
def test_lowering_on_meta_allocates_nothing_and_gives_the_same_program(name):
    module, args, kwargs = MODULES[name]()
    meta = pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, kwargs))
    assert lower(module.to("meta"), *meta).program == lowered_program(name)


def test_known_modules_have_no_extern_calls_but_the_recurrent_ones():
    for name in MODULES:
        externs = {call.op for call in lowered_program(name).calls if call.is_extern}
        assert externs <= {"aten.lstm.input", "aten.full.default"}, name


def test_sources_name_where_inputs_come_from():
    module, args, kwargs = MODULES["structured"]()
    lowered = lower(module, args, kwargs)
    found = [(s.kind, s.name) for s in lowered.sources]
    assert ("user", "args[0]['x']") in found
    assert ("user", "kwargs['mask']") in found
    constants = [s.tensor.tolist() for s in lowered.sources if s.kind == "constant"]
    assert sorted(constants) == [[1, 0, 2], [1, 2, 3]]


def test_one_tensor_given_twice_is_two_inputs():
    class Difference(nn.Module):
        def forward(self, a, b):
            return a - 2 * b

    x = torch.randn(3)
    lowered = lower(Difference(), (x, x))
    (result,) = run(lowered.program, lowered.gather(Difference(), (x, 3 * x)))
    torch.testing.assert_close(result, -5 * x)


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    module, x = Tied(), torch.randn(2, 4)
    lowered = lower(module, (x,))
    assert len(lowered.program.inputs) == 4
    with torch.no_grad():
        expected = module(x)
        (result,) = run(lowered.program, lowered.gather(module, (x,)))
    torch.testing.assert_close(result, expected)


def test_other_structures_of_inputs_are_refused():
    module, args, kwargs = MODULES["structured"]()
    lowered = lower(module, args, kwargs)
    with pytest.raises(UsageError, match="structured as"):
        lowered.gather(module, (args[0]["x"],), kwargs)


def test_indices_are_drawn_within_what_they_index():
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 4)

        def forward(self, index):
            return self.table(index.view(2, 3))

    program = lower(Lookup(), (torch.zeros(6, dtype=torch.int64),)).program
    assert [v.init.high for v in program.inputs if v.type.dtype == "int64"] == [11]


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Picks(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Takes(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


class Fails(nn.Module):
    def forward(self, x):
        return F.linear(x, x.new_ones(3, 5))


class Writes(nn.Module):
    def forward(self, x):
        return x.add_(1)


def line_of(module: nn.Module, offset: int = 1) -> int:
    return type(module).forward.__code__.co_firstlineno + offset


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Branches(), "depends on the values"),
        (Picks(), "depends on the values"),
        (Takes(), "takes a number out of a tensor"),
        (Fails(), "forward raised"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_lowered_is_refused_with_file_line_and_remedy(module, words, device):
    with pytest.raises(UsageError, match=words) as caught:
        lower(module, (torch.randn(3, 4, device=device),))
    assert (caught.value.file, caught.value.line) == (__file__, line_of(module))
    assert caught.value.remedy


def test_writing_into_an_input_is_refused():
    with pytest.raises(UsageError, match="changes 'x' in place") as caught:
        lower(Writes(), (torch.randn(3),))
    assert caught.value.line, "the line of the change"


class MaskNamedBias(nn.Module):
    """GPT-Neo keeps the causal mask in a buffer that is named "bias"."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.ones(3, 3, dtype=torch.bool).tril())

    def forward(self, x):
        return x.masked_fill(self.bias, 0.0)


def test_inputs_are_drawn_for_a_boolean_buffer_whatever_its_name():
    program = lower(MaskNamedBias(), (torch.randn(3, 3),)).program
    assert {t.dtype for t in make_inputs(program, 0)} == {torch.float32, torch.bool}


class JoinsEmpty(nn.Module):
    """A cache joins its first keys to a tensor without elements, of one dimension."""

    def __init__(self, dtype: torch.dtype = torch.float32, repeats: int = 1) -> None:
        super().__init__()
        self.register_buffer("empty", torch.empty(0, dtype=dtype))
        self.repeats = repeats

    def forward(self, x):
        return torch.cat([self.empty, *[x] * self.repeats], dim=-2) * 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "ops"),
    [
        (JoinsEmpty(), ["mul"]),
        (JoinsEmpty(repeats=2), ["cat", "mul"]),
        (JoinsEmpty(torch.int64, repeats=2), ["cat", "mul"]),
        (JoinsEmpty(torch.float64), ["aten.cat.default", "mul"]),
    ],
    ids=["one", "two", "integers", "the dtype of the empty one"],
)
def test_a_join_drops_the_empty_operands_that_pytorch_skips(module, ops):
    x = torch.randn(2, 3, 4)
    lowered = lower(module, (x,))
    assert [call.op for call in lowered.program.calls] == ops
    [result] = run(lowered.program, lowered.gather(module, (x,)))
    torch.testing.assert_close(result, module(x), rtol=0, atol=0)


class Remembers(nn.Module):
    """State in a plain attribute, changed in place and assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.scale = torch.ones(3), torch.full((3,), 2.0)

    def forward(self, x):
        self.state.mul_(x)
        self.state = self.state + 1
        return self.state * self.scale


def test_state_that_is_no_buffer_is_read_and_changed_by_name():
    module = nn.Sequential(Remembers())
    before = module[0].state
    lowered = lower(module, (torch.randn(3),))
    assert module[0].state is before
    assert {s.name: s.kind for s in lowered.sources if s.kind != "user"} == {
        "0.state": "attribute",
        "0.scale": "constant",
    }
    ours = copy.deepcopy(module)
    for _ in range(2):
        x = torch.randn(3)
        results = run(lowered.program, lowered.gather(ours, (x,)))
        lowered.store(ours, results)
        assert torch.allclose(lowered.rebuild(results), module(x))
    assert torch.allclose(ours[0].state, module[0].state)


def test_what_is_no_module_is_refused():
    with pytest.raises(UsageError, match=r"not a torch\.nn\.Module"):
        lower(torch.relu, (torch.randn(3),))


def test_inputs_of_unknown_types_are_refused():
    with pytest.raises(UsageError, match="input type") as caught:
        lower(mlp()[0], (object(),))
    assert "pass tensors" in caught.value.remedy


FLOOR = torch.tensor(-1.0)


class Limited(nn.Module):
    """Limits as a number that forward makes a tensor of, and as tensors that may change."""

    def __init__(self):
        super().__init__()
        self.floor = torch.tensor(-1.0)
        self.config = {"floor": torch.tensor(-1.0)}

    def forward(self, x):
        x = torch.max(torch.min(x, torch.tensor(0.5)), self.floor)
        return torch.max(torch.max(x, FLOOR), self.config["floor"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16])
def test_a_number_that_forward_makes_a_tensor_of_is_a_limit(dtype):
    module, x = Limited(), 3 * torch.randn(4, 5)
    x = x.to(dtype)
    lowered = lower(module, (x,))
    assert [call.op for call in lowered.program.calls] == ["clamp"] + ["maximum"] * 3
    assert lowered.program.calls[0].arg("max") == 0.5
    assert torch.equal(run(lowered.program, lowered.gather(module, (x,)))[0], module(x))


def test_tensors_that_live_elsewhere_are_followed():
    module, x = Limited(), 3 * torch.randn(4, 5)
    lowered = lower(module, (x,))
    before = FLOOR.item()
    try:
        FLOOR.fill_(0.25)
        module.config["floor"].fill_(0.125)
        assert torch.equal(run(lowered.program, lowered.gather(module, (x,)))[0], module(x))
    finally:
        FLOOR.fill_(before)


class Nowhere(nn.Module):
    def forward(self, x):
        return torch.max(x, torch.tensor(float("nan")))


def test_nan_is_no_limit():
    lowered = lower(Nowhere(), (torch.randn(3),))
    assert [call.op for call in lowered.program.calls] == ["maximum"]


class Asserted(torch.nn.Module):
    def forward(self, x, lengths):
        torch._check(lengths.max().item() <= x.shape[-1])
        return torch.relu(x) * 2


def test_a_number_that_assertions_alone_read_is_left_out():
    lowered = lower(Asserted(), (torch.randn(3, 4), torch.tensor([1, 2])), {})
    assert [call.op for call in lowered.program.calls] == ["relu", "mul"]


class BitsOfFloats(nn.Module):
    def forward(self, x):
        return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)


def test_a_view_as_another_dtype_is_a_call():
    x = torch.randn(3, 4)
    (result,) = run(lower(BitsOfFloats(), (x,)).program, [x])
    assert torch.equal(result, x.abs())


class ChannelsLast(nn.Module):
    def forward(self, x):
        return x.to(memory_format=torch.channels_last), x.to(
            torch.half, memory_format=torch.channels_last
        )


def test_casts_into_a_memory_format_have_the_format():
    program = lower(ChannelsLast(), (torch.randn(2, 3, 4, 5),)).program
    assert [call.op for call in program.calls] == ["to_layout", "to_dtype", "to_layout"]
    kinds = [
        (program.type_of(name).layout, program.type_of(name).dtype) for name in program.outputs
    ]
    assert kinds == [(Layout.CHANNELS_LAST, "float32"), (Layout.CHANNELS_LAST, "float16")]
