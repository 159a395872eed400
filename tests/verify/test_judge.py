"""The judge as a whole: what reaches a verdict, by which road, and what does not."""

import json
from contextlib import contextmanager

import pytest
import torch

from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import GuestLost, InfraError, UsageError
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.programs.draws.families import FAMILIES
from kernelwright.programs.text import parse
from kernelwright.sandbox.host.forkserver import ForkServer, shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.host.probe import require_guards
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.verify import checks, screening
from kernelwright.verify.api import verify
from kernelwright.verify.dispatch import computing
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks import cases
from kernelwright.verify.tasks.alike import with_part_of
from kernelwright.verify.tasks.cases import PART_CHANGED, PERMUTED, Cases
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task

GOOD = (ROOT / "honest" / "plain.py").read_text()
MODEL = (ROOT / "honest" / "hybrid_library_call.py").read_text()


@pytest.fixture(scope="module")
def judge():
    with Judge(JudgeOptions(device="cpu", mode="pure", seed=5, budget_s=600.0)) as judge:
        yield judge


@pytest.fixture(scope="module")
def relu():
    return load_task(ROOT / "tasks" / "relu.py")


def candidate(body, source=GOOD):
    """The good candidate with its entry replaced."""
    head = source.split("def fused_operator")[0]
    return Candidate(source=f"{head}def fused_operator(x0):\n{body}\n")


def test_an_acceptance_says_what_it_rests_on(judge, relu):
    passes_nan = GOOD.replace("i < n), 0)", "i < n), 0, propagate_nan=tl.PropagateNan.ALL)")
    verdict = judge.verify(relu, Candidate(source=passes_nan))
    assert verdict.accepted
    assert verdict.launches == {"relu_kernel": 1}
    assert verdict.times == {}
    assert verdict.device == "cpu-interpreter"
    assert verdict.errors.rms_candidate <= verdict.errors.rms_allowed
    assert {"static rules", "compiles for sm_90", "outputs depend on each own kernel"} <= set(
        verdict.checks
    )
    assert "rlimits" in verdict.isolation
    families = {case.split("/")[1] for case in verdict.cases}
    assert families == {*FAMILIES, PART_CHANGED, PERMUTED}
    drops_nan = judge.verify(relu, Candidate(source=GOOD))
    assert drops_nan.accepted
    assert {case.split("/")[1] for case in drops_nan.cases} == families - {"special"}
    variants = {case.split("/")[0] for case in verdict.cases}
    assert variants >= {"base", "in a row"}
    assert len(variants) == 5
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json(), allow_nan=False))) == verdict


def test_secret_seeds_differ_from_judge_to_judge():
    assert Judge(JudgeOptions(device="cpu")).seed != Judge(JudgeOptions(device="cpu")).seed


MISBEHAVIOUR = {
    "segfaults": (
        "    import numpy.lib.stride_tricks as s\n"
        "    view = s.as_strided(x0.numpy(), shape=(1 << 40,), strides=(4,))\n"
        "    return [torch.from_numpy(view[1 << 38 :][:10].copy())]",
        Code.CRASHED,
    ),
    "allocates_64_gib": ("    return [torch.ones(1 << 34)]", Code.OUT_OF_MEMORY),
    "raises": ("    raise ValueError('no')", Code.RUNTIME_ERROR),
    "returns_nothing": ("    relu(x0)", Code.WRONG_STRUCTURE),
    "returns_a_string": ("    relu(x0)\n    return 'PASS'", Code.WRONG_STRUCTURE),
}


@pytest.mark.parametrize(("body", "code"), MISBEHAVIOUR.values(), ids=MISBEHAVIOUR)
def test_what_a_candidate_does_becomes_its_verdict(judge, relu, body, code):
    verdict = judge.verify(relu, candidate(body))
    assert verdict.code is code, verdict.message


@pytest.mark.slow
def test_a_candidate_that_hangs_is_ended_at_the_limit(relu):
    with Judge(JudgeOptions(device="cpu", mode="pure"), limits=Limits(wall_s=4.0)) as judge:
        verdict = judge.verify(relu, candidate("    while True: pass"))
    assert verdict.code is Code.TIMEOUT


BROKEN = {
    "syntax": ("def fused_operator(:", Code.SYNTAX_ERROR, Stage.STATIC),
    "no_entry": (GOOD.replace("fused_operator", "other"), Code.MISSING_ENTRY, Stage.STATIC),
    "model_instead": (MODEL, Code.MISSING_ENTRY, Stage.STATIC),
    "no_kernel": ("def fused_operator(x):\n    return x", Code.NO_KERNEL, Stage.STATIC),
    "load": (GOOD + "\nraise ValueError('no')\n", Code.LOAD_ERROR, Stage.COMPILE),
    "undefined_name": (GOOD.replace("tl.maximum", "tl.maximal"), Code.COMPILE_ERROR, Stage.COMPILE),
}


@pytest.mark.parametrize(("source", "code", "stage"), BROKEN.values(), ids=BROKEN)
def test_what_does_not_load_or_compile_says_so(judge, relu, source, code, stage):
    verdict = judge.verify(relu, Candidate(source=source))
    assert (verdict.code, verdict.stage) == (code, stage), verdict.message


def test_a_compile_error_names_the_line(judge, relu):
    source = GOOD.replace("tl.maximum", "tl.maximal")
    line = 1 + source[: source.index("tl.maximal")].count("\n")
    assert judge.verify(relu, Candidate(source=source)).line == line


def test_a_kernel_for_one_shape_is_refused_at_another(judge, relu):
    fixed = candidate(
        "    y = torch.empty_like(x0)\n"
        "    relu_kernel[(1,)](x0, y, 3700, BLOCK=4096)\n    return [y]"
    )
    verdict = judge.verify(relu, fixed)
    assert not verdict.accepted
    assert "case" in verdict.message


def test_a_big_program_is_judged_on_smaller_sizes(judge):
    text = (ROOT / "tasks" / "relu.py").read_text().replace("(37, 100)", "(1 << 13, 1 << 14)")
    task = program_task(parse(text.replace("1 << 13", "8192").replace("1 << 14", "16384")))
    verdict = judge.verify(task, Candidate(source=GOOD))
    assert verdict.accepted, verdict.message
    assert any("smaller sizes" in text for text in verdict.advice)


@pytest.mark.slow
def test_parameters_of_other_names_get_the_weights_in_order():
    verdict = verify(
        ROOT / "tasks" / "linear_model.py", ROOT / "honest" / "own_names.py", device="cpu"
    )
    assert verdict.accepted, verdict.message
    assert any(case.startswith("redrawn weights") for case in verdict.cases)


@pytest.mark.slow
def test_library_calls_are_judged_by_the_mode():
    arguments = ROOT / "tasks" / "linear_model.py", ROOT / "honest" / "hybrid_library_call.py"
    assert verify(*arguments, device="cpu", mode="hybrid").accepted
    assert verify(*arguments, device="cpu", mode="pure").code is Code.LIBRARY_COMPUTE


@pytest.mark.slow
def test_dropout_draws_alike_in_reference_candidate_and_oracle(tmp_path):
    model = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.drop = torch.nn.Dropout(0.3)\n\n"
        "    def forward(self, x):\n        return torch.relu(self.drop(x))\n\n\n"
        "def get_inputs():\n    return [torch.randn(20, 30)]\n"
    )
    (tmp_path / "ref.py").write_text(model)
    (tmp_path / "new.py").write_text(
        GOOD.split("def fused_operator")[0]
        + model.split("\n\n\ndef get_inputs")[0]
        .replace("Model(", "ModelNew(")
        .replace("torch.relu(", "relu(")
    )
    assert verify(tmp_path / "ref.py", tmp_path / "new.py", device="cpu", mode="hybrid").accepted


def test_screening_goes_on_after_a_candidate_that_kills_the_guest(judge, relu):
    deadly = candidate(*MISBEHAVIOUR["segfaults"][:1])
    wrong = candidate("    return [relu(relu(x0) * 2)]")
    good = Candidate(source=GOOD)
    verdicts = judge.screen(relu, [good, deadly, wrong, good])
    assert [v.code for v in verdicts] == [Code.OK, Code.CRASHED, Code.WRONG_VALUES, Code.OK]
    assert len(verdicts[0].cases) == 2
    assert [v.code for v in judge.screen(relu, [deadly])] == [Code.CRASHED]


def test_candidates_that_are_not_trusted_share_neither_guests_nor_compiled_kernels(
    relu, monkeypatch
):
    asked, started = [], ForkServer.guest
    require_guards("cpu")  # asks a guest of its own, once
    monkeypatch.setattr(
        ForkServer, "guest", lambda *a, **k: asked.append(k["trusted"]) or started(*a, **k)
    )
    for trusted, guests in ((True, 2), (False, 4)):
        asked.clear()
        with Judge(JudgeOptions(device="cpu", mode="pure", seed=5), trusted=trusted) as judge:
            for _ in range(2):
                assert judge.screen(relu, [Candidate(source=GOOD)])[0].accepted
        assert asked == [trusted] * guests  # to compile in and to run in, for both or each


def test_screening_nothing_gives_nothing(judge, relu):
    assert judge.screen(relu, []) == []


def test_candidates_are_screened_in_two_cases_large_ones_in_one(judge, relu, monkeypatch):
    good = Candidate(source=GOOD)
    assert [len(verdict.cases) for verdict in judge.screen(relu, [good])] == [2]
    monkeypatch.setattr(screening, "KEPT_BYTES", 0)
    assert [len(verdict.cases) for verdict in judge.screen(relu, [good])] == [1]


def test_memory_is_held_while_judging_and_not_while_compiling(relu, monkeypatch):
    events = []

    @contextmanager
    def hold():
        events.append("hold")
        yield
        events.append("free")

    compile_, run = Guest.compile, Guest.run
    monkeypatch.setattr(
        Guest, "compile", lambda *a, **k: events.append("compile") or compile_(*a, **k)
    )
    monkeypatch.setattr(Guest, "run", lambda *a, **k: events.append("run") or run(*a, **k))
    with Judge(JudgeOptions(device="cpu", mode="pure", seed=5, budget_s=0.0), hold=hold) as judge:
        assert judge.screen(relu, [Candidate(source=GOOD)])[0].accepted
        assert events == ["compile", "hold", "run", "run", "free"]
        events.clear()
        assert judge.verify(relu, Candidate(source=GOOD)).accepted
        assert (events[0], events[-1]) == ("hold", "free")
        events.clear()
        assert (
            judge.verify(relu, Candidate(source="def fused_operator(:")).code == Code.SYNTAX_ERROR
        )
    assert events == [], "static rules need none"


def test_only_what_is_judged_fully_says_which_policy_would_let_it_pass(judge, relu):
    """That takes the reference's answers under each."""
    source = GOOD.replace("tl.maximum(", "1.0001 * tl.maximum(")
    rounded = Candidate(source=source)
    said = [judge.verify(relu, rounded), *judge.screen(relu, [rounded])]
    assert [verdict.code for verdict in said] == [Code.WRONG_VALUES] * 2
    assert [any("would be right under" in a for a in v.advice) for v in said] == [True, False]


def test_a_large_first_case_is_posed_again_and_not_kept(relu, monkeypatch):
    rules = Judge(JudgeOptions(device="cpu", mode="pure", seed=5)).rules
    kept = Cases({"base": relu}, rules, 5)
    assert kept.first() is kept.first()
    monkeypatch.setattr(cases, "KEPT_BYTES", 0)
    posed_again = Cases({"base": relu}, rules, 5)
    one, other = posed_again.first(), posed_again.first()
    assert one is not other
    assert torch.equal(one.inputs[0], other.inputs[0])


def test_a_lost_guest_is_tried_once_more(judge, relu, monkeypatch):
    run, calls = Guest.run, []

    def lose_the_first(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise GuestLost("the first guest is lost")
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Guest, "run", lose_the_first)
    assert judge.verify(relu, Candidate(source=GOOD)).accepted


def test_a_guest_lost_while_screening_is_tried_once_more(judge, relu, monkeypatch):
    run, calls = Guest.run, []

    def lose_the_second(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            self.close()
            raise GuestLost("the guest is lost")
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Guest, "run", lose_the_second)
    verdicts = judge.screen(relu, [Candidate(source=GOOD)] * 2)
    assert [len(v.cases) for v in verdicts if v.accepted] == [2, 2]


@pytest.mark.slow
def test_a_fork_server_that_dies_while_judging_costs_nothing_but_time(judge, relu, monkeypatch):
    calls, run = [], Guest.run

    def lose_the_server(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            server = shared("cpu")._process
            server.kill()
            server.wait()
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Guest, "run", lose_the_server)
    assert judge.verify(relu, Candidate(source=GOOD)).accepted
    assert len(calls) > 2


def test_a_guest_lost_twice_is_our_fault_and_no_verdict(judge, relu, monkeypatch):
    def lose(self, *args, **kwargs):
        raise GuestLost("lost")

    monkeypatch.setattr(Guest, "run", lose)
    with pytest.raises(InfraError):
        judge.verify(relu, Candidate(source=GOOD))


def test_a_reference_that_fails_is_the_users_fault(judge, tmp_path):
    path = tmp_path / "ref.py"
    path.write_text(
        "import torch\n\ndef get_inputs():\n    return [torch.randn(3)]\n\n"
        "def fused_operator(x):\n    raise ValueError('broken')\n"
    )
    with pytest.raises(UsageError, match="broken"):
        judge.verify(load_task(path), Candidate(source=GOOD))


OPTIONS = [{"device": "tpu"}, {"precision": "loose"}, {"mode": "impure"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_an_unknown_option_is_refused(options):
    with pytest.raises(UsageError, match="no such"):
        Judge(JudgeOptions(**{"device": "cpu", **options}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_refused():
    with pytest.raises(UsageError, match="no CUDA device"):
        Judge(JudgeOptions(device="cuda"))


def test_a_missing_candidate_file_is_the_users_fault(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        verify(ROOT / "tasks" / "relu.py", tmp_path / "missing.py", device="cpu")


def test_a_candidate_that_is_no_text_is_a_syntax_error(tmp_path):
    path = tmp_path / "candidate.py"
    path.write_bytes(b"\xff\xfe\x00\x80")
    assert verify(ROOT / "tasks" / "relu.py", path, device="cpu").code is Code.SYNTAX_ERROR


def test_the_dispatch_guard_tells_memory_and_views_from_computing():
    free = [
        "aten.empty.memory_format", "aten.zeros.default", "aten.clone.default",
        "aten.view.default", "aten.t.default", "aten.slice.Tensor", "aten.as_strided.default",
        "aten.split.Tensor", "aten.expand.default", "aten.detach.default", "aten.fill_.Scalar",
        "aten._to_copy.default",
    ]  # fmt: skip
    work = [
        "aten.mm.default", "aten.add.Tensor", "aten.relu_.default", "aten.cat.default",
        "other.mm.default", "prims.exp.default", "aten.add_.Tensor",
    ]  # fmt: skip
    assert computing(free + work) == work


TWO_KERNELS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0.0), i < n)


@triton.jit
def idle_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * 2, i < n)


def fused_operator(x0):
    y, aside = torch.empty_like(x0), torch.empty_like(x0)
    grid = (triton.cdiv(x0.numel(), 4096),)
    relu_kernel[grid](x0, y, x0.numel(), BLOCK=4096)
    idle_kernel[grid](x0, aside, x0.numel(), BLOCK=4096)
    return [y]
"""


def test_one_idle_kernel_among_several_is_a_decoy(judge, relu):
    verdict = judge.verify(relu, Candidate(source=TWO_KERNELS))
    assert verdict.code is Code.DECOY
    assert "idle_kernel" in verdict.message


PACKS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(w, p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, tl.load(w + i, i < n), i < n)


@triton.jit
def scale_kernel(x, p, y, rows, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    mask = i < columns
    value = tl.load(x + row * columns + i, mask) * tl.load(p + i, mask)
    tl.store(y + row * columns + i, value, mask)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.packed, self.version = None, None

    def forward(self, x):
        if WHEN:
            self.packed, self.version = torch.empty_like(self.weight), self.weight._version
            n = self.weight.numel()
            copy_kernel[(1,)](self.weight, self.packed, n, BLOCK=triton.next_power_of_2(n))
        y = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        scale_kernel[(x.shape[0],)](x, self.packed, y, *x.shape, BLOCK=block)
        return y
"""
SCALE = """\
import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(8, 48)]


def get_init_inputs():
    return [48]
"""


@pytest.fixture
def scale(tmp_path):
    path = tmp_path / "ref.py"
    path.write_text(SCALE)
    return load_task(path)


def test_weights_packed_once_are_found_out_when_they_change(judge, scale):
    once = PACKS.replace("WHEN", "self.packed is None")
    verdict = judge.verify(scale, Candidate(source=once))
    assert verdict.code is Code.WRONG_VALUES
    assert "new weights" in verdict.message


def test_packing_that_follows_updates_is_honest_and_no_decoy(judge, scale):
    follows = PACKS.replace("WHEN", "self.version != self.weight._version")
    verdict = judge.verify(scale, Candidate(source=follows))
    assert verdict.accepted, verdict.message
    assert verdict.launches == {"copy_kernel": 1, "scale_kernel": 1}


def test_a_kernel_that_only_takes_dense_inputs_is_accepted_with_advice(judge, relu):
    verdict = judge.verify(relu, Candidate(source=GOOD))
    assert any("strided inputs" in text for text in verdict.advice)
    allocation = "y = torch.empty_like(x)"
    dense = GOOD.replace(allocation, f"x = x.contiguous()\n    {allocation}")
    verdict = judge.verify(relu, Candidate(source=dense))
    assert verdict.accepted
    assert "strided inputs" in verdict.checks


BATCH_NORM = (ROOT / "honest" / "running_statistics.py").read_text()


@pytest.mark.slow
def test_a_module_for_one_mode_only_is_accepted_with_advice(judge):
    task = load_task(ROOT / "tasks" / "batch_norm_model.py")
    verdict = judge.verify(task, Candidate(source=BATCH_NORM))
    assert verdict.accepted, verdict.message
    assert "eval mode" not in verdict.checks
    assert any("wrong with eval mode" in text for text in verdict.advice)


@pytest.mark.slow
def test_a_candidate_may_keep_what_the_tasks_file_imports(tmp_path):
    path = tmp_path / "task.py"
    task = (ROOT / "tasks" / "linear_model.py").read_text()
    path.write_text(f"import sympy\n{task}")
    kept = Candidate(source=f"import sympy\n{MODEL}")
    assert verify(path, kept, mode="hybrid").accepted
    assert verify(path, kept, mode="pure").code is Code.FORBIDDEN
    elsewhere = verify(ROOT / "tasks" / "linear_model.py", kept, mode="hybrid")
    assert elsewhere.code is Code.FORBIDDEN


def test_a_result_kept_under_a_sample_of_its_inputs_is_found_stale(judge, relu):
    sampled = candidate(
        "    key = tuple(x0.flatten()[:: max(1, x0.numel() // 8)].tolist())\n"
        "    if key not in kept:\n        kept[key] = relu(x0)\n"
        "    return [kept[key].clone()]",
        source=GOOD.replace("def fused_operator", "kept = {}\n\n\ndef fused_operator"),
    )
    verdict = judge.verify(relu, sampled)
    assert verdict.code in (Code.WRONG_VALUES, Code.NOT_LAUNCHED), verdict.message
    assert PART_CHANGED in verdict.message


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (64, 64)])
def test_a_part_is_changed_and_the_rest_is_not(shape):
    one, other = torch.zeros(shape), torch.ones(shape)
    mixed = with_part_of(one, other, seed=1)
    assert mixed.sum() == max(1, one.numel() // 256)
    assert not one.any()
    assert with_part_of(3, 4, seed=1) == 3


@pytest.mark.parametrize("shape", [(3,), (3, 5), (64, 64)])
def test_the_part_that_is_changed_is_neither_the_first_value_nor_the_last(shape):
    """A cheat that knows its inputs by these got through in one run of 1,300."""
    one, other = torch.zeros(shape), torch.ones(shape)
    for seed in range(300):
        mixed = with_part_of(one, other, seed).flatten()
        assert mixed.any()
        assert not mixed[[0, -1]].any()


def test_in_pure_mode_own_kernels_must_take_a_share_of_the_time():
    checks.check_share(0.5, "pure")
    checks.check_share(0.99, "hybrid")
    checks.check_share(None, "pure")
    with pytest.raises(Rejected) as rejected:
        checks.check_share(0.97, "pure")
    assert rejected.value.code is Code.LIBRARY_COMPUTE


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (1.0 + 3e-4, False)])
def test_a_form_agrees_where_its_error_can_be_rounding(judge, factor, agrees):
    texts = [
        "import torch\n\n\ndef get_inputs():\n    x0 = torch.randn((64, 64), dtype=torch.float32)\n"
        f"    return [x0]\n\n\ndef fused_operator(x0):\n    t0 = torch.mul(x0, {each})\n"
        "    return [t0]\n"
        for each in (1.0, factor)
    ]
    one, other = (program_task(parse(text)) for text in texts)
    assert judge.agrees(one, other) is agrees
