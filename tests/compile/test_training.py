"""Gradients behind the backend: forward and backward graphs are programs, values are PyTorch's."""

import pytest
import torch
import torch.nn.functional as F
from fake_finder import FakeFinder, compiler
from torch import nn

from kernelwright.programs.text import parse, to_text


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(y) + y).mean((2, 3))


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 11)

    def forward(self, x):
        target = torch.arange(x.shape[0]) % 11
        return F.cross_entropy(self.head(x), target, label_smoothing=0.1)


CASES = {
    "transformer": (Transformer, (2, 5, 16)),
    "convolutions": (Convolutions, (2, 3, 8, 8)),
    "loss": (Loss, (6, 16)),
}


def step(call, module, x):
    """Result, gradients and buffers of one step."""
    module.zero_grad()
    x = x.detach().clone().requires_grad_()
    result = call(x)
    result.square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in module.named_parameters()}
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    return result.detach(), x.grad, gradients, buffers


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_step_gives_the_gradients_of_pytorch(name):
    kind, shape = CASES[name]
    module, other = kind().train(), kind().train()
    other.load_state_dict(module.state_dict())
    double = kind().train().double()
    double.load_state_dict(module.state_dict())
    ours = compiler()
    fast = torch.compile(module, backend=ours)
    for _ in range(3):
        x = torch.randn(shape)
        got, expected = step(fast, module, x), step(other, other, x)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    exact = step(double, double, x.double())
    torch.testing.assert_close(got[1].double(), exact[1], rtol=1e-3, atol=1e-4)
    assert {report.part for report in ours.reports} == {"forward", "backward"}
    assert [report.why for report in ours.reports if report.runs != "own kernels"] == []


@pytest.mark.slow
def test_a_first_convolution_has_no_gradient_of_its_input():
    module, other = Convolutions(), Convolutions()
    other.load_state_dict(module.state_dict())
    ours, x = compiler(), torch.randn(2, 3, 8, 8)
    fast = torch.compile(module, backend=ours)
    for call in (fast, other):
        call(x).square().sum().backward()
    torch.testing.assert_close(module.first.weight.grad, other.first.weight.grad)
    assert [report.why for report in ours.reports if report.runs != "own kernels"] == []
    program = ours.finder.searched[-1]
    assert parse(to_text(program)) == program
    assert "_, t" in to_text(program)


def test_kernels_serve_both_directions():
    """What runs is what the search delivered: changed kernels change values and gradients."""
    ours = compiler(FakeFinder(change=lambda text: text.replace("torch.mul(", "torch.add(")))
    x = torch.full((4,), 3.0, requires_grad=True)
    y = torch.compile(lambda x: x * 5.0, backend=ours)(x)
    y.sum().backward()
    assert y.tolist() == [8.0] * 4
    assert x.grad.tolist() == [6.0] * 4  # 1 + 5
    assert [report.part for report in ours.reports] == ["forward", "backward"]


@pytest.mark.slow
def test_kernels_that_fail_leave_inductors_code_for_both():
    ours = compiler(FakeFinder(change=lambda text: text.replace("torch.", "torch.missing_", 1)))
    module, other = Loss(), Loss()
    other.load_state_dict(module.state_dict())
    fast, x = torch.compile(module, backend=ours), torch.randn(6, 16)
    for _ in range(2):
        torch.testing.assert_close(step(fast, module, x), step(other, other, x))
    assert all("failed" in report.why for report in ours.reports)


@pytest.mark.slow
def test_dropout_stays_with_inductor_and_trains():
    ours = compiler()
    fast = torch.compile(lambda x: F.dropout(x * 2, 0.5).sum(), backend=ours)
    x = torch.ones(1000, requires_grad=True)
    fast(x).backward()
    assert set(x.grad.tolist()) == {0.0, 4.0}
    assert all(report.why for report in ours.reports)


@pytest.mark.slow
def test_inference_and_training_of_one_module_are_graphs_of_their_own():
    module = Loss()
    ours = compiler()
    fast, x = torch.compile(module, backend=ours), torch.randn(6, 16)
    with torch.no_grad():
        first = fast(x)
    second = fast(x)
    second.backward()
    torch.testing.assert_close(first, second.detach())
    assert [report.part for report in ours.reports] == ["", "forward", "backward"]


@pytest.mark.slow
def test_autocast_in_training_is_in_the_graph():
    module, other = Transformer(), Transformer()
    other.load_state_dict(module.state_dict())
    fast, x = torch.compile(module, backend=compiler()), torch.randn(2, 5, 16)
    with torch.autocast("cpu", torch.bfloat16):
        got, expected = step(fast, module, x), step(other, other, x)
    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)
