"""Programs that compute at all sizes, and modules that serve them."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from kernelwright import optimize
from kernelwright.core.errors import UsageError
from kernelwright.core.record import environment
from kernelwright.programs.fragments.compose import compose
from kernelwright.search.module.emit import factory_file
from kernelwright.search.module.guards import HELPERS, LoweredModule
from kernelwright.search.module.importing import imported_function
from kernelwright.search.optimized import Delivery, attach
from kernelwright.search.sizes.lowering import lower_at_sizes
from kernelwright.search.sizes.requested import Range, requested
from kernelwright.search.sizes.signature import Signature
from varying_modules import Attention


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 6, 3, 2, 1)

    def forward(self, x):
        y = self.second(self.first(x).relu()).relu()
        batch, channels, height, width = y.shape
        flat = y.view(batch, channels, height * width)
        return torch.cat([flat.flatten(1), x.flatten(1)], 1) * (1 / batch), flat.new_zeros(batch, 2)


class Windows(nn.Module):
    def forward(self, x):
        batch, tokens, width = x.shape
        y = x.view(batch, tokens // 4, 4, width).mean(2)
        return F.pad(y.repeat_interleave(4, 1), (0, 0, 0, 1)) + torch.arange(tokens + 1)[:, None]


class Masked(nn.Module):
    def forward(self, x, mask):
        tokens = x.shape[1]
        causal = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        return (x @ x.transpose(1, 2)).masked_fill(~(causal & mask[:, None, :]), -1e9).softmax(-1)


B, T = Dim("b", max=24), Dim("t", max=40)
CASES = {
    "attention": (Attention, (4, 12, 16), {"x": {0: B, 1: T}}),
    "convolutions": (Convolutions, (4, 3, 16, 12), {"x": {0: B, 2: T}}),
    "windows": (Windows, (4, 12, 16), {"x": {0: B, 1: 4 * Dim("quarters", max=10)}}),
}


def sized_of(name):
    kind, shape, shapes = CASES[name]
    module, example = kind().eval(), ((torch.randn(shape),), {})
    with torch.no_grad():
        return (
            module,
            example,
            lower_at_sizes(module, example, requested(module.forward, example, shapes)),
        )


def computed(sized, module, *inputs):
    """What the text of the program gives."""
    compute = imported_function(compose(sized.sized.spelled, []).source)
    lowered = sized.lowered
    with torch.no_grad():
        return lowered.rebuild(lowered.separated(compute(*lowered.gather(module, inputs))))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_text_computes_at_sizes_that_nobody_looked_at(name):
    module, _, sized = sized_of(name)
    asked = sized.requested
    for sizes in ({"b": 5, "t": 9, "quarters": 7}, {"b": 23, "t": 38, "quarters": 1}):
        shape = list(CASES[name][1])
        for place in asked.places:
            shape[place.dim] = place.length(sizes)
        x = torch.randn(shape)
        with torch.no_grad():
            expected = module(x)
        torch.testing.assert_close(computed(sized, module, x), expected)


@pytest.mark.slow
def test_two_inputs_may_share_a_size():
    module, x, mask = Masked(), torch.randn(4, 12, 8), torch.rand(4, 12) > 0.2
    shapes = {"x": {0: B, 1: T}, "mask": {0: B, 1: T}}
    example = ((x, mask), {})
    sized = lower_at_sizes(module, example, requested(module.forward, example, shapes))
    x, mask = torch.randn(7, 31, 8), torch.rand(7, 31) > 0.2
    torch.testing.assert_close(computed(sized, module, x, mask), module(x, mask))


class Branches(nn.Module):
    def forward(self, x):
        return x.exp() if x.shape[0] > 10 else x.sin()


class Counts(nn.Module):
    def forward(self, x):
        return x + 1, x.shape[0]


class Unrolls(nn.Module):
    def forward(self, x):
        for row in range(x.shape[0]):
            x = x + row
        return x


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Branches, Counts, Unrolls])
def test_a_module_without_one_program_is_refused(kind):
    example = ((torch.randn(4, 3),), {})
    asked = requested(kind().forward, example, {"x": {0: B}})
    with pytest.raises(UsageError, match="one program cannot serve all values of b"):
        lower_at_sizes(kind(), example, asked)


class AtOne(nn.Module):
    def forward(self, x):
        return x.squeeze(0).exp(), x * 1.5


@pytest.mark.slow
def test_a_module_that_differs_at_size_one_is_judged_there_too():
    example = ((torch.randn(4, 3),), {})
    sized = lower_at_sizes(AtOne(), example, requested(AtOne().forward, example, {"x": {0: B}}))
    assert {"b": 1} in [sizes for sizes, _ in sized.elsewhere]
    assert sized.requested.ranges == {"b": Range(1, 24)}


def delivered(module, example, sized):
    """A module that computes with the text of its program, as on a GPU."""
    text = compose(sized.sized.spelled, []).source.replace("return [", "return [3 + ", 1)
    delivery = Delivery(
        kind=type(module),
        lowered=sized.lowered,
        source=text,
        signature=Signature.of(example, sized.requested),
        is_training=module.training,
        on_gpu=True,
        result={"graph": None, "form": "kernels"},
        fragments=(),
        environment=environment(),
    )
    return attach(module, delivery)


@pytest.fixture
def served():
    class Plain(nn.Module):
        def forward(self, x):
            return x.exp()

    module, example = Plain(), ((torch.randn(4, 3),), {})
    sized = lower_at_sizes(module, example, requested(module.forward, example, {"x": {0: B}}))
    return delivered(module, example, sized)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 4, 23, 24])
def test_kernels_serve_the_range(served, rows):
    x = torch.randn(rows, 3)
    torch.testing.assert_close(served(x), x.exp() + 3)


class Scaled(nn.Module):
    """NaN stands for no scale."""

    def forward(self, x, scale):
        return x.exp() if scale != scale else (x * scale).exp()


@pytest.fixture
def written():
    """A function from whether the file keeps the original to what `optimized.py` defines: a class
    whose program is PyTorch's own."""

    def names(falls_back):
        module, example = Scaled(), ((torch.randn(4, 3), math.nan), {})
        asked = requested(module.forward, example, {"x": {0: B}})
        sized = lower_at_sizes(module, example, asked)
        text = factory_file(
            "package:make",
            LoweredModule(
                module=module,
                lowered=sized.lowered,
                is_for_one_mode=False,
                sizes=sized.requested,
            ),
            compose(sized.sized.spelled, []).source,
            falls_back=falls_back,
        )
        namespace = {}
        exec(text.replace("return results[0]", "return results[0] - 100.0"), namespace)
        return namespace["attach"](Scaled())

    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "scale", "is_served"),
    [(24, math.nan, True), (1, math.nan, True), (24, 2.0, False), (25, math.nan, False)],
)
def test_a_file_serves_its_range_and_its_numbers(written, rows, scale, is_served):
    x = torch.randn(rows, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = written(True)(x, scale)
    assert torch.equal(result, Scaled()(x, scale) - 100.0 * is_served)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "scale"), [(24, 2.0), (25, math.nan)])
def test_a_file_without_the_original_refuses_other_calls(written, rows, scale):
    with pytest.raises(ValueError, match=r"kernelwright optimize. again"):
        written(False)(torch.zeros(rows, 3), scale)


def test_a_number_is_not_nan():
    namespace = {}
    exec(HELPERS["is_value"], namespace)
    is_value = namespace["is_value"]
    assert is_value(math.nan, math.nan)
    assert is_value(1.0, 1.0)
    assert not is_value(math.nan, 1.0)
    assert not is_value(1.0, math.nan)
    assert not is_value(1, 1.0)
    assert not is_value(True, 1)


@pytest.mark.slow
def test_outside_of_the_range_the_original_runs_and_one_warning_comes(served):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for rows in (25, 26, 25):
            x = torch.randn(rows, 3)
            assert torch.equal(served(x), x.exp())
    assert [str(each.message) for each in caught] == [
        "Plain was optimized for b 1 to 24: calls with other sizes run the original forward"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(4, 5)  # another signature, as without dynamic sizes
        assert torch.equal(served(x), x.exp())


class Small(nn.Module):
    def forward(self, x):
        return torch.softmax((x * 2).tanh(), dim=-1)


@pytest.mark.slow
def test_optimize_judges_the_whole_at_several_sizes():
    fast = optimize(
        Small(), torch.randn(6, 17), dynamic_shapes=({0: B},), budget_s=600, progress=False
    )
    verdict = fast.optimization["verdict"]
    assert verdict["accepted"], verdict["message"]
    (note,) = [text for text in verdict["advice"] if text.startswith("judged with")]
    assert "b 24" in note
    assert "b 1" in note
