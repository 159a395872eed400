"""The backend of torch.compile where sizes vary from call to call."""

import pytest
import torch
import torch.nn.functional as F
from fake_finder import FakeFinder, compiler
from torch import nn

from kernelwright.compile.sizes import GraphSizes
from kernelwright.programs.sizes.program import sized_of, sized_record
from varying_modules import Attention


class AndTwice(Attention):
    """A size is a result too."""

    def forward(self, x):
        return super().forward(x), x.shape[1] * 2


class Halves(nn.Module):
    """Dynamo guards that the number of rows is even."""

    def forward(self, x):
        if x.shape[0] % 2 == 0:
            return x.view(x.shape[0] // 2, 2, -1).sum(1)
        return x * 2


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.second(self.first(x)).relu()
        return y, F.adaptive_avg_pool2d(y, 1).flatten(1), torch.cat([y.flatten(1), x.flatten(1)], 1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(5))

    def forward(self, x):
        self.total += x.sum(0)
        return x - self.total


SHAPES = {
    AndTwice: [(3, 7, 16), (4, 9, 16), (2, 2, 16), (12, 30, 16), (31, 5, 16)],
    Halves: [(4, 5), (6, 5), (8, 5), (7, 5), (9, 5), (30, 5)],
    Convolutions: [(2, 3, 16, 16), (3, 3, 18, 20), (7, 3, 9, 11), (2, 3, 31, 40)],
    Counter: [(3, 5), (4, 5), (9, 5), (40, 5)],
}


@pytest.mark.slow
@pytest.mark.parametrize("mark", [None, True], ids=["second size", "dynamic=True"])
@pytest.mark.parametrize("kind", SHAPES)
def test_one_program_serves_all_sizes(kind, mark):
    torch.manual_seed(0)
    module, other = kind().eval(), kind().eval()
    other.load_state_dict(module.state_dict())
    ours = compiler(copied_share=1e9)
    fast = torch.compile(module, backend=ours, dynamic=mark)
    with torch.no_grad():
        for shape in SHAPES[kind]:
            x = torch.randn(shape)
            got, expected = fast(x), other(x)
            torch.testing.assert_close(got, expected)
            for one, another in zip(
                got if isinstance(got, tuple) else (got,),
                expected if isinstance(expected, tuple) else (expected,),
                strict=True,
            ):
                if isinstance(one, torch.Tensor):
                    assert one.stride() == another.stride()
    torch.testing.assert_close(dict(module.state_dict()), dict(other.state_dict()))
    assert [report.why for report in ours.reports if report.runs != "own kernels"] == []
    assert len(ours.reports) <= 3


@pytest.mark.slow
def test_kernels_serve_the_float_that_they_were_made_for():
    finder = FakeFinder(change=lambda source: source.replace("torch.mul(", "torch.sub("))
    ours = compiler(finder)
    fast = torch.compile(lambda x, scale: x * scale, backend=ours, dynamic=True)
    x = torch.randn(4, 3)
    for scale in (0.5, 2.0, 0.5):
        result = fast(x, scale)
        assert torch.equal(result, x - 0.5 if scale == 0.5 else x * scale)
    assert len(ours.reports) == 1


def test_a_float_that_the_graph_computes_with_stays_an_input():
    ours = compiler()
    fast = torch.compile(lambda x, y: x * y, backend=ours)
    x, y = torch.randn(4, 3), torch.tensor(2.0, dtype=torch.float64)
    torch.testing.assert_close(fast(x, y), x * y)
    y.fill_(3.0)
    torch.testing.assert_close(fast(x, y), x * y)
    assert [report.runs for report in ours.reports] == ["own kernels"]


@pytest.mark.slow
def test_outside_of_the_verified_range_inductors_code_runs():
    finder = FakeFinder(change=lambda source: source.replace("torch.relu(", "torch.neg("))
    ours = compiler(finder)
    fast = torch.compile(lambda x: torch.relu(x), backend=ours, dynamic=True)
    with torch.no_grad():
        fast(torch.randn(4, 3))
        for rows in (2, 9, 40):
            x = torch.randn(rows, 3)
            assert torch.equal(fast(x), -x)
        x = torch.randn(1000, 3)
        assert torch.equal(fast(x), torch.relu(x))
    assert len(ours.reports) == 1


@pytest.mark.slow
def test_a_known_graph_serves_other_sizes_beside_inductors_code():
    ours = compiler(FakeFinder(knows=True))
    fast = torch.compile(lambda x: torch.relu(x) + 1, backend=ours, dynamic=True)
    for rows in (4, 1000, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(fast(x), torch.relu(x) + 1)


def sizes_of(function, *inputs):
    """What the backend sees of sizes."""
    found = []

    def backend(graph, given):
        sizes = GraphSizes.of(graph)
        found.append((sizes, sizes.inputs_at(given, sizes.points()[1]) if sizes else given))
        return graph.forward

    torch.compile(function, backend=backend, dynamic=True)(*inputs)
    return found[0]


def test_sizes_are_those_that_guards_allow():
    def function(x, y):
        if x.shape[0] % 8 == 0 and x.shape[0] < 300:
            return x + y[: x.shape[0]]
        return x

    sizes, inputs = sizes_of(function, torch.randn(16, 4).t().contiguous().t(), torch.randn(64, 4))
    points = sizes.points()
    assert {16, 64} <= set(points[0].values())
    assert len(points) >= 4
    for x in inputs:
        if isinstance(x, torch.Tensor) and x.stride(0) == 1:
            assert x.shape[0] % 8 == 0
            assert x.stride() == (1, x.shape[0])


@pytest.mark.slow
def test_an_integer_that_varies_leaves_the_graph_to_inductor():
    ours = compiler()
    fast = torch.compile(lambda x, n: x * n + x[:n].sum(), backend=ours, dynamic=True)
    x = torch.randn(9, 3)
    for n in (4, 5, 6):
        torch.testing.assert_close(fast(x, n), x * n + x[:n].sum())
    assert any("an integer among its inputs varies" in report.why for report in ours.reports)


def test_a_size_that_guards_hold_still_is_served_at_that_size_alone():
    def function(x):
        return x.reshape(x.shape[0], -1) * 1.0 if x.shape[1] * x.shape[2] == 60 else x

    sizes, _ = sizes_of(function, torch.randn(4, 6, 10))
    served = sizes.served(sizes.points())
    by_hint = {sizes.hints[name]: (each.low, each.high) for name, each in served.items()}
    assert by_hint[6] == (6, 6)
    assert by_hint[10] == (10, 10)
    assert by_hint[4][0] == 2
    assert by_hint[4][1] > 4


def test_a_graph_without_symbols_has_no_sizes():
    seen = []

    def backend(graph, _):
        seen.append(GraphSizes.of(graph))
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.randn(3))
    assert seen == [None]


@pytest.mark.slow
def test_programs_at_several_sizes_are_data():
    from kernelwright.compile.graph import read_graph

    found = []

    def backend(graph, given):
        found.append(read_graph(graph, given).sized.program)
        return graph.forward

    with torch.no_grad():
        torch.compile(AndTwice().eval(), backend=backend, dynamic=True)(torch.randn(3, 7, 16))
    (sized,) = found
    assert sized_of(sized_record(sized)) == sized
