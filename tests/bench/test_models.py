"""`eval models`: models by name, their blocks, values beside float64, and runs that go on."""

import gc
import math
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from kernelwright.bench.models import measuring, zoo
from kernelwright.bench.models import run as run_module
from kernelwright.bench.models.blocks import distinct_blocks
from kernelwright.bench.models.measuring import is_ours, measure, search
from kernelwright.bench.models.run import BY_BLOCK, WHOLE, ModelsPlan, run_models
from kernelwright.bench.models.tensors import CacheState, changed, tensors_of
from kernelwright.bench.models.zoo import ModelCall, model_named
from kernelwright.bench.queue.runs import QUEUE, read_queue
from kernelwright.bench.queue.state import QueueCall
from kernelwright.bench.suite import CasesLeft
from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import BackendSettings
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError

CPU = torch.device("cpu")


class Layer(nn.Module):
    """A block with a switch, and with a dropout whose rate differs from layer to layer."""

    def __init__(self, number, kind="full"):
        super().__init__()
        self.number, self.kind = number, kind
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)
        self.dropout = nn.Dropout(number / 10)

    def forward(self, x):
        return x + self.dropout(self.linear(self.norm(x)))


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.idle = nn.Linear(4, 8), nn.Dropout()
        first = nn.Sequential(*map(Layer, range(3)))
        self.stages = nn.ModuleList([first, nn.Sequential(Layer(3), Layer(4, "sliding"))])
        self.shared = self.stages[0][0]

    def forward(self, x):
        x = self.idle(self.stem(x))
        for stage in self.stages:
            x = stage(x)
        return self.shared(x)


class CacheLayer:
    def __init__(self):
        self.keys, self.length = torch.zeros(2, 3), 1


class Cache:
    def __init__(self):
        self.layers = [CacheLayer()]


class Decoder(nn.Module):
    """Writes into its cache, as a decoder does."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, cache):
        layer = cache.layers[0]
        layer.keys.add_(x)
        layer.length += 1
        return {"logits": self.linear(layer.keys), "cache": cache}


def test_names_that_cannot_be_used_are_refused_with_the_remedy(monkeypatch):
    with pytest.raises(UsageError, match="names no model"):
        model_named("resnet50")
    with pytest.raises(UsageError, match="names no model"):
        model_named("torchhub/resnet50")
    monkeypatch.setattr(zoo, "missing", lambda _: {"timm": "ModuleNotFoundError: No module"})
    with pytest.raises(UsageError, match="timm cannot be imported") as refused:
        model_named("timm/resnet50")
    assert "pip install timm" in refused.value.remedy


def test_the_published_list_is_that_of_the_page():
    text = (Path(__file__).parents[2] / "docs" / "eval-models.md").read_text()
    listed = text.split("list of 16 models")[1].split("| option")[0]
    assert re.findall(r"`(\S+/\S+)`", listed) == list(zoo.DEFAULT)


def test_blocks_of_one_class_size_and_switch_are_one():
    call = ModelCall(Stages().eval(), (torch.randn(2, 4),), {})
    facts = [block.facts for block in distinct_blocks(call)]
    assert facts == [
        {"name": "stem", "kind": "Linear", "count": 1, "calls": 1},
        {"name": "stages.0.0", "kind": "Layer", "count": 4, "calls": 5},
        {"name": "stages.1.1", "kind": "Layer", "count": 1, "calls": 1},
    ]


def test_a_block_is_called_with_the_arguments_of_its_first_call():
    model = Stages().eval()
    x = torch.randn(2, 4)
    stem, layer, _ = distinct_blocks(ModelCall(model, (x,), {}))
    assert torch.equal(stem.call.args[0], x)
    assert torch.equal(layer.call.args[0], model.stem(x))


def test_a_cache_gets_its_contents_back_and_is_copied_with_the_call():
    call = ModelCall(Decoder(), (torch.ones(2, 3),), {"cache": Cache()})
    wide = changed(call, CPU, is_wide=True)
    state = CacheState(call)
    call.module(*call.args, **call.kwargs)
    layer = call.kwargs["cache"].layers[0]
    layer.values = torch.ones(1)
    call.kwargs["cache"].layers.append(CacheLayer())
    state.restore()
    assert call.kwargs["cache"].layers == [layer]
    assert vars(layer).keys() == {"keys", "length"}
    assert layer.length == 1
    assert not layer.keys.any()
    assert {tensor.dtype for tensor in tensors_of((wide.args, wide.kwargs))} == {torch.float64}
    assert next(wide.module.parameters()).dtype == torch.float64
    assert next(call.module.parameters()).dtype == torch.float32


def test_kernels_are_ours_by_name_also_where_inductor_numbers_them():
    assert is_ours("softmax_mul", ["softmax_mul"])
    assert is_ours("softmax_mul_0", ["softmax_mul"])
    assert not is_ours("triton_poi_fused_mul_0", ["softmax_mul"])


class NothingKnown:
    def known(self, _sought, _settings):
        return None

    def search(self, _sought, _settings):
        raise InfraError("the search did not end in time")


def backend(change=lambda result: result, search="off"):
    """The backend with eager calls, changed, in place of Inductor's code."""

    def inductor(graph, _inputs):
        return lambda *inputs: [change(result) for result in graph(*inputs)]

    return Compiler(
        BackendSettings.of({"search": search}),
        finder=NothingKnown(),
        inductor=inductor,
        device_types=("cpu",),
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize(("dtype", "factor"), [("float32", 1.001), ("bfloat16", 1.1)])
def test_values_are_judged_beside_float64_and_graphs_say_why_inductor_stays(dtype, factor):
    torch._dynamo.reset()
    module = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).to(getattr(torch, dtype)).eval()
    call = ModelCall(module, (torch.randn(4, 8).to(getattr(torch, dtype)),), {})
    facts = measure(call, backend(), CPU)
    assert facts["correct"] == {"compiled": True, "optimized": True}
    assert facts["mismatch"] == facts["sides_failed"] == {}
    assert facts["errors"]["optimized"]["rms_reference"] > 0.0
    assert facts["compile_s"].keys() == {"compiled", "optimized"}
    assert facts["eager"] is facts["share"] is facts["peak_bytes"] is None
    [graph] = facts["graphs"]
    assert graph["why"] == "the library has no search of this graph"
    torch._dynamo.reset()
    wrong = measure(call, backend(lambda result: result * factor), CPU)
    assert wrong["correct"] == {"compiled": True, "optimized": False}
    assert "optimized" in wrong["mismatch"]


def test_a_search_that_fails_leaves_its_reason():
    torch._dynamo.reset()
    call = ModelCall(nn.Linear(8, 8).eval(), (torch.randn(4, 8),), {})
    facts = search(call, backend(search="now"))
    assert facts["search_s"] > 0.0
    [why] = facts["searches_failed"]
    assert "did not end in time" in why


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_a_side_that_raises_is_named_and_the_other_side_is_measured():
    torch._dynamo.reset()

    def broken(_result):
        raise RuntimeError("no such kernel")

    call = ModelCall(nn.Linear(8, 8).eval(), (torch.randn(4, 8),), {})
    facts = measure(call, backend(broken), CPU)
    assert "no such kernel" in facts["sides_failed"]["optimized"]
    assert facts["correct"] == {"compiled": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("timm/resnet18", [("batch", 1), ("batch", 8)]),
        ("transformers/bert", [("prefill", 1), ("batch", 8)]),
        ("transformers/gpt2", [("prefill", 1), ("decode", 1), ("batch", 8)]),
    ],
)
def test_small_models_of_the_libraries_have_calls_and_blocks(name, calls):
    library = name.partition("/")[0]
    zoo.prepare()
    pytest.importorskip(library, reason=f"{library} is not installed")
    model = model_named(name, is_small=True)
    assert list(model.cases) == calls
    for phase, batch in calls:
        call = model.call(phase, batch, torch.bfloat16, "cpu")
        blocks = distinct_blocks(call)
        assert max(block.facts["count"] for block in blocks) >= 2
    assert {p.dtype for p in call.module.parameters()} == {torch.bfloat16}
    with pytest.raises(UsageError, match="no-such-model"):
        model_named(f"{library}/no-such-model")


class TimedContender:
    """A contender whose calls are timed without a GPU."""

    def __init__(self, call, before):
        self._call, self._before = call, before

    def prepare(self, _inputs, _seed):
        pass

    def time(self):
        self._before()
        self._call()
        return 1.0

    def release(self):
        pass


@pytest.fixture
def locks(monkeypatch):
    """The branch of a GPU on a CPU: the locks in the order in which they are taken."""
    taken = []

    @contextmanager
    def lock(*, shared=False):
        assert not taken or taken[-1] == "free"
        taken.append("shared" if shared else "alone")
        yield
        taken.append("free")

    monkeypatch.setattr(measuring, "gpu_lock", lock)
    monkeypatch.setattr(
        measuring, "changed", lambda call, _, **options: changed(call, CPU, **options)
    )
    monkeypatch.setattr(measuring, "CalledContender", TimedContender)
    monkeypatch.setattr(measuring, "_share", lambda *_: 0.5)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    return taken


def eager_in_place_of_compiled(monkeypatch, ours=lambda run: run):
    """`torch.compile` that compiles nothing; `ours` changes the call behind our backend."""

    def compiled(module, backend="inductor"):
        return module if backend == "inductor" else ours(module)

    monkeypatch.setattr(torch, "compile", compiled)


def test_a_gpu_is_shared_by_first_calls_and_held_alone_for_times(locks, monkeypatch):
    eager_in_place_of_compiled(monkeypatch)
    call = ModelCall(Decoder(), (torch.ones(2, 3),), {"cache": Cache()})
    facts = measure(call, backend(), torch.device("cuda"))
    assert locks == ["shared", "free", "shared", "free", "alone", "free"]
    assert facts["correct"] == {"compiled": True, "optimized": True}
    assert facts["optimized"]["median_ms"] == 1.0
    assert facts["speedup_intervals"].keys() == {"eager", "compiled"}
    assert facts["peak_bytes"] == {"eager": 7, "compiled": 7, "optimized": 7}
    assert facts["share"] == 0.5


def test_a_kernel_that_breaks_the_gpu_is_told_and_nothing_is_timed(locks, monkeypatch):
    broken = []

    def breaking(module):
        def call(*args, **kwargs):
            broken.append(True)
            return module(*args, **kwargs)

        return call

    def synchronize():
        if broken:  # a kernel's error is raised by the next wait
            raise RuntimeError("an illegal memory access was encountered")

    eager_in_place_of_compiled(monkeypatch, breaking)
    monkeypatch.setattr(measuring, "_synchronize", synchronize)
    call = ModelCall(nn.Linear(3, 3), (torch.ones(2, 3),), {})
    facts = measure(call, backend(), torch.device("cuda"))
    assert "illegal memory access" in facts["sides_failed"]["optimized"]
    assert facts["correct"] == {"compiled": True}
    assert facts["eager"] is facts["share"] is None
    assert "alone" not in locks


def test_inductor_is_loaded_before_the_first_side_is_measured(monkeypatch):
    called = []

    def compiled(module, **_):
        def call(*args, **kwargs):
            called.append(type(module).__name__)
            return module(*args, **kwargs)

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    measure(ModelCall(nn.Linear(3, 3), (torch.ones(2, 3),), {}), backend(), CPU)
    assert called == ["Softmax", "Linear", "Linear"]


def test_no_copy_in_float64_keeps_memory_while_sides_are_measured(monkeypatch):
    eager_in_place_of_compiled(monkeypatch)
    module = nn.Linear(3, 3)
    module.circle = [module]  # as some models refer to their parts
    wide = []

    def first_calls(*_):
        wide.extend(
            value
            for value in gc.get_objects()
            if type(value) is nn.Linear and value.weight.dtype is torch.float64
        )
        return {"sides_failed": {}}

    monkeypatch.setattr(measuring, "_first_calls", first_calls)
    gc.disable()
    try:
        measure(ModelCall(module, (torch.ones(2, 3),), {}), backend(), CPU)
    finally:
        gc.enable()
    assert wide == []


def test_a_model_is_wholly_on_the_device_also_where_it_takes_tensors_from_numpy():
    def build(_dtype):
        module = nn.Linear(3, 3)
        module.register_buffer("places", torch.from_numpy(np.ones(3)))
        return module

    model = zoo.ZooModel(name="ours/one", cases=(), build=build, inputs=lambda *_: {})
    call = model.call("batch", 1, torch.float32, "meta")
    assert {tensor.device.type for tensor in call.module.state_dict().values()} == {"meta"}


def plan(tmp_path, **changes):
    values = {
        "out": tmp_path,
        "models": ["ours/one"],
        "dtypes": ["float32"],
        "phases": ["prefill", "batch"],
        "by": [WHOLE, BY_BLOCK],
        "is_small": True,
        "device": "cpu",
        "budget_s": 1.0,
        "timeout_s": 1.0,
        "deadline_s": math.inf,
    }
    return ModelsPlan(**values | changes)


@pytest.fixture
def steps(monkeypatch):
    """Steps without processes: the list of those that were taken."""
    taken = []

    def step(_plan, subject, step, block):
        taken.append((subject.phase, step, block and block["name"]))
        if step == run_module.BLOCKS:
            return {"blocks": [{"name": "head", "kind": "Linear", "count": 1, "calls": 1}]}
        if (subject.phase, step) == ("batch", run_module.SEARCH):
            return {"failed": "out of memory"}
        return {"search_s": 1.0} if step == run_module.SEARCH else {"graphs": []}

    def named(name, *, is_small):
        return zoo.ZooModel(name=name, cases=zoo.ENCODER_CASES, build=None, inputs=None)

    monkeypatch.setattr(run_module, "_step", step)
    monkeypatch.setattr(run_module, "model_named", named)
    return taken


def test_a_run_goes_on_where_it_ended_and_failures_have_reasons(tmp_path, steps):
    run_models(plan(tmp_path, by=[WHOLE]), print)
    run_models(plan(tmp_path), print)
    assert steps == [
        ("prefill", "search", None),
        ("prefill", "measure", None),
        ("batch", "search", None),
        ("prefill", "blocks", None),
        ("prefill", "search", "head"),
        ("prefill", "measure", "head"),
        ("batch", "blocks", None),
        ("batch", "search", "head"),
    ]
    lines = list(record.read(tmp_path / "records.jsonl"))
    cases = [line for line in lines if line["record"] == "model_case"]
    assert [case.get("failed") for case in cases] == [None, "out of memory"] * 2
    steps.clear()
    run_models(plan(tmp_path), print)
    assert steps == []
    with pytest.raises(UsageError, match="budget_s"):
        run_models(plan(tmp_path, budget_s=2.0), print)


def test_failures_of_ours_are_counted_and_run_again(tmp_path, steps, monkeypatch):
    one = plan(tmp_path, by=[WHOLE])
    taken = run_module._step
    lost = {"failed": "search: the process died", "code": "infra"}
    monkeypatch.setattr(run_module, "_step", lambda *_: lost)
    assert run_models(one, print) == CasesLeft(not_begun=0, failed=2)
    monkeypatch.setattr(run_module, "_step", taken)
    assert run_models(one, print) == CasesLeft(not_begun=0, failed=0)
    assert [step for _, step, _ in steps] == ["search", "measure", "search"]
    steps.clear()
    run_models(one, print)
    assert steps == [], "the model's own failure is a finding"


def test_a_phase_that_a_model_lacks_is_told(tmp_path, steps):
    said = []
    run_models(plan(tmp_path, phases=["prefill", "decode"], by=[WHOLE]), said.append)
    assert any(text.endswith("has no decode") for text in said)


def test_no_case_begins_after_the_deadline(tmp_path, steps):
    left = run_models(plan(tmp_path, deadline_s=0.0), print)
    assert steps == []
    # Two phases whole, and two whose blocks nobody has listed.
    assert left == CasesLeft(not_begun=4, failed=0)


def test_the_queue_tells_the_blocks_of_a_model_apart(tmp_path, steps):
    run_models(plan(tmp_path), print)
    runs = [one for one in read_queue(QUEUE) if one.name.startswith("models-")]
    assert [one.name for one in runs] == ["models-whole", "models-blocks"]
    [queued, _] = runs
    environment = {"commit": "0123456789ab", "gpu": None}
    call = QueueCall(folder=tmp_path.parent, values={}, environment=environment)
    [status] = call.status([replace(queued, name=tmp_path.name)])
    lines = record.read(tmp_path / "records.jsonl")
    assert status.cases == sum(line["record"] == "model_case" for line in lines)
    assert status.cases > 2
    assert status.total == status.cases


def test_the_head_says_how_many_cases_there_are_once_all_blocks_are_listed(tmp_path, steps):
    def totals():
        lines = record.read(tmp_path / "records.jsonl")
        return [line.get("cases") for line in lines if line["record"] == "run"]

    run_models(plan(tmp_path, by=[WHOLE]), print)
    assert totals() == [2]
    run_models(plan(tmp_path, by=[BY_BLOCK], phases=["prefill"]), print)
    assert totals() == [2, None, 1]


@pytest.mark.slow
def test_a_process_that_takes_too_long_is_a_failure_with_its_step(tmp_path):
    pytest.importorskip("transformers")
    models = plan(tmp_path, models=["transformers/bert"], phases=["prefill"], by=[WHOLE])
    run_models(models, print)
    *_, case = record.read(tmp_path / "records.jsonl")
    assert case["failed"].startswith("search: no end within 1 s")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_a_block_is_searched_in_one_process_and_served_from_the_library_in_another(tmp_path):
    pytest.importorskip("transformers")
    models = plan(
        tmp_path,
        models=["transformers/llama"],
        phases=["prefill"],
        by=[BY_BLOCK],
        budget_s=120.0,
        timeout_s=600.0,
    )
    # The other blocks would take minutes: the run finds its list of blocks in the records.
    norm = {"name": "model.norm", "kind": "LlamaRMSNorm", "count": 1, "calls": 1}
    call = {"model": "transformers/llama", "dtype": "float32", "phase": "prefill", "batch": 1}
    blocks = {"record": "model_blocks", **call, "blocks": [norm]}
    record.append(models.records, [models.head(), blocks])
    run_models(models, print)
    *_, case = record.read(models.records)
    assert case["correct"] == {"compiled": True, "optimized": True}, case
    [graph] = case["graphs"]
    assert graph["runs"] == "own kernels", graph
    assert graph["kernels"]
    assert case["search_s"] > 0.0
