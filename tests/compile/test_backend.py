"""The backend of torch.compile: values are those of PyTorch, whatever serves a graph."""

import threading

import pytest
import torch
from fake_finder import FakeFinder, compiler
from torch import nn

from kernelwright.compile import wait
from kernelwright.core.errors import UsageError


class Block(nn.Module):
    """A module with everything that a graph may have as input."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight  # tied
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("cache", torch.zeros(4, 8))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, *, scale=2.0):
        self.calls += 1
        hidden = self.norm(torch.relu(self.first(x))) * scale
        self.cache[1:3] = hidden[:2]
        return {"y": self.second(hidden), "pair": (hidden.sum(), None, 3)}


def agree(ours, theirs):
    torch.testing.assert_close(ours, theirs)


def both(module, make, *, calls=3, finder=None, **options):
    """Results and buffers of calls of a module, behind the backend and alone; the compiler."""
    other = make()
    other.load_state_dict(module.state_dict())
    ours = compiler(finder, **options)
    fast = torch.compile(module, backend=ours)
    for seed in range(calls):
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        agree(fast(x), other(x))
        agree(dict(module.state_dict()), dict(other.state_dict()))
    return ours


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("grad_off", [torch.no_grad, torch.inference_mode])
def test_buffers_change_and_nested_results_come_back(training, grad_off):
    with grad_off():
        ours = both(Block().train(training), lambda: Block().train(training))
    [report] = ours.reports
    assert report.runs == "own kernels", report.why
    assert report.speedup == 2.0


@pytest.mark.slow
def test_gradients_are_those_of_pytorch():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    fast = torch.compile(module, backend=(ours := compiler()))
    x = torch.randn(4, 8)
    fast(x).sum().backward()
    gradient = module[0].weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    agree(gradient, module[0].weight.grad)
    assert {report.part for report in ours.reports} == {"forward", "backward"}


def test_graph_breaks_make_several_graphs():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            x = torch.tanh(self.first(x))
            torch._dynamo.graph_break()
            return self.second(x)

    torch.manual_seed(0)
    with torch.no_grad():
        ours = both(Broken(), Broken)
    assert [report.runs for report in ours.reports] == ["own kernels"] * 2
    assert [bool(report.graph_break) for report in ours.reports] == [True, False]


@pytest.mark.slow
def test_autocast_around_a_call_and_inside_a_module_is_followed():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = self.first(x)
            return y, self.first(x)

    with torch.no_grad():
        inside = both(Inside(), Inside)
        assert inside.reports[0].runs == "own kernels", inside.reports[0].why
        with torch.autocast("cpu", torch.bfloat16):
            around = both(nn.Linear(8, 8), lambda: nn.Linear(8, 8))
            assert around.reports[0].runs == "own kernels", around.reports[0].why
        both(nn.Linear(8, 8), lambda: nn.Linear(8, 8))


@pytest.mark.slow
def test_inputs_with_gaps_between_elements():
    fast = torch.compile(lambda x: torch.softmax(x, -1) + 1, backend=compiler())
    for x in (torch.randn(8, 6).T, torch.randn(6, 16)[:, ::2], torch.randn(1, 8).expand(6, 8)):
        result = fast(x)
        agree(result, torch.softmax(x, -1) + 1)
        assert result.stride() == (torch.softmax(x, -1) + 1).stride()


@pytest.mark.parametrize(
    "function",
    [lambda x: x.view(-1)[2:], lambda x: (x + 1).chunk(2), lambda x: x.t()],
    ids=["part", "chunks", "transposed"],
)
def test_results_that_are_views_share_memory_as_in_pytorch(function):
    x = torch.randn(4, 8)
    ours = compiler()
    result = torch.compile(lambda x: (x * 2, function(x)), backend=ours)(x)[1]
    agree(result, function(x))
    [report] = ours.reports
    assert report.runs == "own kernels"
    first = result[0] if isinstance(result, tuple) else result
    same = function(x)[0] if isinstance(result, tuple) else function(x)
    shares = [
        t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for t in (first, same)
    ]
    assert shares[0] == shares[1]


def test_an_input_that_changes_and_shares_memory_is_left_to_the_graph():
    def add_rows(cache, x):
        cache.add_(1.0)
        return x * 2

    ours = compiler()
    fast = torch.compile(add_rows, backend=ours)
    for is_shared in (False, True):
        whole, other = torch.arange(8.0), torch.arange(8.0)
        x, y = (whole, other) if is_shared else (torch.ones(8), torch.ones(8))
        agree(fast(whole[:4], x[4:]), add_rows(other[:4], y[4:]))
        agree(whole, other)


@pytest.mark.slow
def test_a_second_size_makes_a_graph_whose_kernels_serve_all_sizes():
    ours = compiler()
    fast = torch.compile(lambda x: torch.relu(x) + 1, backend=ours)
    for rows in (3, 4, 5, 6, 40, 64):
        x = torch.randn(rows, 5)
        agree(fast(x), torch.relu(x) + 1)
    assert [report.runs for report in ours.reports] == ["own kernels", "own kernels"]


@pytest.mark.slow
def test_weights_may_change_and_be_replaced_after_compilation():
    module = Block().eval()
    fast = torch.compile(module, backend=compiler())
    x = torch.randn(4, 8)
    with torch.no_grad():
        fast(x)
        module.first.weight.mul_(2.0)
        agree(fast(x), module(x))
        module.load_state_dict(Block().state_dict())
        agree(fast(x), module(x))
        module.first.bias = nn.Parameter(torch.ones(8))
        agree(fast(x), module(x))


def test_other_threads_do_not_believe_that_a_capture_runs(monkeypatch):
    answers = []

    def elsewhere():
        answers.append(torch.compiler.is_exporting())

    def lowered(*_):
        monkeypatch.setattr(torch.compiler, "_is_exporting_flag", True)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        answers.append(torch.compiler.is_exporting())
        raise UsageError("enough")

    monkeypatch.setattr("kernelwright.compile.graph.lower", lowered)
    torch.compile(lambda x: x + 1, backend=compiler())(torch.randn(3))
    assert answers == [False, True]


def test_threads_may_call_at_once():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    fast = torch.compile(module, backend=compiler())
    failures = []

    def call(seed):
        with torch.no_grad():
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
            for _ in range(50):
                if not torch.allclose(fast(x), module(x)):
                    failures.append(seed)

    with torch.no_grad():
        fast(torch.randn(4, 8))
    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_kernels_replace_inductors_code_when_the_search_has_ended():
    may_end = threading.Event()

    class Slow(FakeFinder):
        def search(self, program, settings):
            may_end.wait(60)
            return super().search(program, settings)

    ours = compiler(Slow(change=lambda source: source.replace("1)", "2)")), search="background")
    fast = torch.compile(lambda x: torch.add(x, 1), backend=ours)
    x = torch.zeros(4)
    assert fast(x)[0] == 1.0, "PyTorch's own calls, while the search goes on"
    assert ours.reports[0].why == "the search goes on"
    assert not wait(0.0)
    may_end.set()
    assert wait(60)
    assert fast(x)[0] == 2.0, "the source of the search, which adds 2"
    assert ours.reports[0].runs == "own kernels"


def test_known_graphs_are_neither_searched_nor_compiled_by_inductor():
    finder = FakeFinder(knows=True)
    with torch.no_grad():
        ours = both(Block().eval(), lambda: Block().eval(), finder=finder)
    assert not finder.searched
    assert not ours.left_to_inductor
    assert ours.reports[0].runs == "own kernels"


@pytest.mark.slow
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("form", ["compiled", "original"])
def test_inductors_code_stays_where_nothing_is_faster(knows, form):
    with torch.no_grad():
        ours = both(Block(), Block, finder=FakeFinder(knows=knows, form=form))
    [report] = ours.reports
    assert report.runs == "Inductor's code"
    assert report.why == "all of it won"
    assert len(ours.left_to_inductor) == 1


def test_a_search_that_fails_leaves_inductors_code():
    class Failing(FakeFinder):
        def search(self, program, settings):
            raise MemoryError("no memory left")

    with torch.no_grad():
        ours = both(Block(), Block, finder=Failing())
    assert "no memory left" in ours.reports[0].why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "knows"), [("now", False), ("background", False), ("now", True)]
)
def test_kernels_that_fail_in_a_call_are_given_up(search, knows):
    """Where the library knew the kernels, Inductor compiles the graph then, once."""
    broken = {"change": lambda source: source.replace("    return [", "    return [1 / 0, ")}
    with torch.no_grad():
        ours = both(Block(), Block, finder=FakeFinder(knows=knows, **broken), search=search)
    wait()
    assert len(ours.left_to_inductor) == 1
    assert "division by zero" in ours.reports[0].why
    assert ours.reports[0].runs == "Inductor's code"


def test_a_fault_in_reading_a_graph_leaves_it_to_inductor(monkeypatch):
    def broken(*_, **__):
        raise KeyError("a fault of ours")

    monkeypatch.setattr("kernelwright.compile.backend.read_graph", broken)
    with torch.no_grad():
        ours = both(Block(), Block)
    assert "a fault of ours" in ours.reports[0].why


def test_a_library_that_fails_knows_nothing():
    class Failing(FakeFinder):
        def known(self, program, settings):
            raise OSError("no such disk")

    with torch.no_grad():
        ours = both(Block(), Block, finder=Failing())
    assert ours.reports[0].runs == "own kernels"


@pytest.mark.slow
def test_a_source_that_cannot_be_imported_leaves_inductors_code():
    for knows in (True, False):
        finder = FakeFinder(knows=knows, change=lambda source: f"import no_such_module\n{source}")
        with torch.no_grad():
            ours = both(Block(), Block, finder=finder)
        assert "no_such_module" in ours.reports[0].why
        assert len(ours.left_to_inductor) == 1


def test_without_a_search_only_the_library_is_asked():
    finder = FakeFinder()
    with torch.no_grad():
        ours = both(Block(), Block, finder=finder, search="off")
    assert not finder.searched
    assert "library" in ours.reports[0].why


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 3}, "no option 'budget'"),
        ({"budget_s": 0}, "positive number"),
        ({"budget_s": True}, "positive number"),
        ({"search": "later"}, "choose among background, now, off"),
        ({"precision": "half"}, "choose among strict"),
        ({"library": 3}, "path of a folder"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, said):
    with pytest.raises(UsageError) as caught:
        compiler(**options)
    assert said in f"{caught.value} {caught.value.remedy}"


@torch.library.custom_op("kernelwright_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


STAYS = {
    "custom operator": (lambda x: twice(x) + 1, (torch.ones(3),)),
    "complex": (torch.fft.fft, (torch.ones(8),)),
    "no inputs": (lambda: torch.ones(3) + 1, ()),
    "changes inputs in place": (lambda x, y: (y.add_(1), x * 2)[1], (torch.ones(8), torch.ones(8))),
    "reads strided inputs": (torch.exp, (torch.ones(8, 6).t(),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", STAYS)
def test_what_is_better_left_to_inductor(reason):
    function, inputs = STAYS[reason]
    ours = compiler(copied_share=0.02)
    with torch.no_grad():
        agree(torch.compile(function, backend=ours)(*inputs), function(*inputs))
    [report] = ours.reports
    assert reason in report.why


def test_deterministic_algorithms_are_left_to_inductor():
    ours = compiler()
    torch.use_deterministic_algorithms(True)
    try:
        torch.compile(torch.tanh, backend=ours)(torch.ones(3))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "deterministic" in ours.reports[0].why
