"""TritonBench's files as tasks: read, recorded, and posed to the judge."""

import json
from contextlib import nullcontext

import pytest
import torch
from small_tritonbench import (
    NOISY,
    NOISY_TESTS,
    SCALED,
    SCALED_TESTS,
    T_FILES,
    write_checkout,
    write_predictions,
)
from verdicts import verdict

from kernelwright.bench.tritonbench import posing, stages
from kernelwright.bench.tritonbench.cases import (
    Outcomes,
    PosedCalls,
    TaskScripts,
    case_of_answers,
    case_of_prediction,
)
from kernelwright.bench.tritonbench.checkout import Checkout, names_of_instructions, names_of_labels
from kernelwright.bench.tritonbench.forms import Unposable, call_form
from kernelwright.bench.tritonbench.posing import _drawn_results, on_device, pose_file
from kernelwright.bench.tritonbench.predictions import code_of, read_predictions
from kernelwright.bench.tritonbench.spread import spread
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.report.tritonbench import reason_rows, score_of, score_rows
from kernelwright.sandbox.host.scripts import ScriptOutcome
from kernelwright.verify.many.recipe import JudgeRecipe

RECIPE = JudgeRecipe(device="cpu")
ABOUT = {"mode": "hybrid", "precision": "strict", "device": "interpreter"}
RIGHT = verdict(**ABOUT)
WRONG = verdict(Code.WRONG_VALUES, message="far off", **ABOUT)


@pytest.fixture
def checkout(tmp_path):
    return Checkout(write_checkout(tmp_path / "root"), "T")


def posed(golden, tests, channel="G"):
    """What the tests call; on channel G nothing is lowered, which takes seconds."""
    job = {"name": "task.py", "golden": golden, "tail": tests, "channel": channel, "device": "cpu"}
    return pose_file(job)


def call(number, **fields):
    """A posed call, unlike those of other numbers."""
    return {"function": "f", "reference": f"text {number}", "adapter": "", **fields}


def task_line(*calls, refused=None):
    return {"record": "tritonbench_task", "calls": list(calls), "refused": refused}


# -- the checkout


def test_a_file_that_is_no_task_says_why(checkout):
    faults = {file.name: file.fault for file in checkout.files}
    assert faults.pop("torn.py").startswith("no tests")
    assert set(faults.values()) == {None}


def test_code_that_does_not_parse_is_a_fault(tmp_path):
    root = write_checkout(tmp_path / "root")
    (root / "data" / "TritonBench_T_v1" / "torn.py").write_text("def f(:\n" + "#" * 146 + "\nf()")
    file = next(file for file in Checkout(root, "T").files if file.name == "torn.py")
    assert file.fault.startswith("not Python")


def test_a_larger_limit_only_adds_tasks(checkout):
    names = [{file.name for file in checkout.selected(limit)} for limit in (1, 2, 3, None)]
    assert [len(some) for some in names] == [1, 2, 3, 4]
    assert names[0] < names[1] < names[2] < names[3]


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(UsageError, match="TritonBench_T_v1"):
        Checkout(tmp_path, "T")


def test_instructions_are_found_by_the_golden_text(tmp_path):
    root = write_checkout(tmp_path / "root")
    assert Checkout(root, "G").instructions("comp") == {"doubled.py": "Double every value."}
    with pytest.raises(UsageError, match="no such file"):
        Checkout(root, "G").instructions("simp")


def test_labels_name_files_where_they_are_cut_off_or_in_other_words():
    about = [{"file": f"{name}.py", "output": f"def {name}(): pass"} for name in ("a", "ab", "c")]
    labels = ["def ab():", "def a(): pass ", "def c(): return"]
    assert names_of_labels(about, labels) == ["ab.py", "a.py", "c.py"]
    assert names_of_labels(about, ["def ", "other"]) == [None, None]


def test_an_instruction_names_the_task_with_the_longest_description_in_it():
    about = [{"file": "add.py", "description": "Adds."}, {"file": "b.py", "description": "Adds. B"}]
    assert names_of_instructions(about, ["Write:  Adds.\nB now", "Adds.", "no"]) == [
        "b.py",
        "add.py",
        None,
    ]


# -- predictions


def test_predictions_are_a_folder_of_files_whose_tests_do_not_count(checkout, tmp_path):
    folder = write_predictions(tmp_path / "predicted", scaled_sum=T_FILES["scaled_sum.py"])
    assert read_predictions(folder, checkout) == {"scaled_sum.py": SCALED}


def test_predictions_are_lines_of_a_model_too(checkout, tmp_path):
    path = tmp_path / "model.jsonl"
    asked = "Functional Description: Does what noisy.py does. Wrapper Entry Information: none"
    path.write_text(json.dumps({"instruction": asked, "predict": "```python\nx = 1\n```"}))
    assert read_predictions(path, checkout) == {"noisy.py": "x = 1\n"}


def test_predictions_for_other_tasks_are_refused(checkout, tmp_path):
    with pytest.raises(UsageError, match="no prediction for a task"):
        read_predictions(write_predictions(tmp_path / "other", other="x = 1"), checkout)
    with pytest.raises(UsageError, match="no such folder"):
        read_predictions(tmp_path / "gone", checkout)


@pytest.mark.parametrize(
    "answer",
    [
        "x = 1\n",
        "Here:\n```python\nx = 1\n```\nThat is all.",
        "```python\ny = 2\n```\nBetter:\n```py\nx = 1\n```<|im_end|>",
        "```python\nx = 1\n",
    ],
)
def test_the_code_of_an_answer_is_its_last_block_or_all_of_it(answer):
    assert code_of(answer) == "x = 1\n"


# -- calls


def test_calls_are_posed_on_fresh_inputs_of_the_same_types():
    calls = posed(SCALED, SCALED_TESTS)["calls"]
    assert [call["posed_as"] for call in calls] == ["function", "function"]
    space = {}
    exec(on_device(calls[1]["reference"], "cpu"), space)
    one, two = space["get_inputs"]()
    assert (one.shape, one.dtype, one.device.type) == ((4, 8), torch.float32, "cpu")
    assert not torch.equal(one, space["get_inputs"]()[0])
    (result,) = space["fused_operator"](one, two)
    assert torch.equal(result, one + 0.5 * two)


@pytest.mark.slow
def test_calls_of_pytorch_are_programs():
    calls = posed(SCALED, SCALED_TESTS, channel="T")["calls"]
    assert [call["posed_as"] for call in calls] == ["program", "program"]
    assert all(call["program"] == call["reference"] for call in calls)
    assert "scale=0.5" in calls[1]["adapter"]


@pytest.mark.parametrize(
    ("golden", "tests", "why"),
    [
        (NOISY, NOISY_TESTS, "draws random numbers"),
        ("def f(x):\n    return x.sum().item()", "f(torch.ones(3))", "gives no tensors"),
        ("def f(n):\n    return torch.ones(n)", "f(3)", "takes no tensors"),
        ("def f(x, g):\n    return g(x)", "f(torch.ones(3), torch.relu)", "an argument is a"),
        ("def f(x):\n    raise ValueError('no')", "f(torch.ones(3))", "the golden call fails"),
    ],
)
def test_a_call_that_cannot_be_posed_says_why(golden, tests, why):
    answer = posed("import torch\n" + golden, "import torch\n" + tests)
    assert why in answer["calls"][0]["refused"]


@pytest.mark.parametrize(
    ("golden", "tests", "why"),
    [
        ("raise ValueError('no')", "", "the golden code fails: ValueError: no"),
        ("def f(x):\n    return x", "1 / 0", "the tests fail: ZeroDivisionError"),
        ("def f(x):\n    return x", "pass", "call no function"),
    ],
)
def test_a_file_without_calls_says_why(golden, tests, why):
    answer = posed(golden, tests)
    assert answer["calls"] == []
    assert why in answer["refused"]


def test_code_can_read_its_own_source_as_kernels_of_triton_do():
    golden = (
        "import inspect\n\ndef f(x):\n    return x\n\nassert 'return x' in inspect.getsource(f)"
    )
    answer = posed(golden, "import torch\nf(torch.ones(3))")
    assert len(answer["calls"]) == 1, answer["refused"]


def test_inputs_are_drawn_on_the_device_on_which_the_golden_code_runs():
    text = "def get_inputs():\n    return [torch.ones(3)]\n\ndef fused_operator(x):\n    return [x]"
    for channel, device in (("G", "meta"), ("T", "cpu")):
        (drawn,) = _drawn_results("import torch\n" + text, {"channel": channel, "device": "meta"})
        assert drawn.device.type == device


def test_a_tensor_that_a_call_changes_is_a_result_and_stays_as_it_is():
    golden = "def filled(x, value):\n    x.fill_(value)"
    (call,) = posed(golden, "import torch\nfilled(torch.rand(4), 2.0)")["calls"]
    space = {}
    exec(call["reference"], space)
    (x,) = space["get_inputs"]()
    before = x.clone()
    assert space["fused_operator"](x)[0].tolist() == [2.0] * 4
    assert torch.equal(x, before)


def test_inputs_that_must_keep_a_property_are_scaled():
    golden = "import torch\n\ndef root(x):\n    return torch.linalg.cholesky(x)"
    spread_out = "2 * torch.eye(4) + (place - place[:, None]).abs() / 4"
    tests = f"import torch\nplace = torch.arange(4.0)\nroot({spread_out})"
    (call,) = posed(golden, tests)["calls"]
    assert call["posed_as"] == "scaled"


def test_integers_of_a_call_stay_and_floats_of_one_sign_keep_it():
    index, scale = torch.tensor([2, 0, 1]), torch.rand(50) + 1.0
    options = {"dtype": torch.float16, "device": "cuda"}
    form = call_form("f", (index, [scale]), options, scale, ())
    space = {"torch": torch}
    exec(form.inputs(fresh=True), space)
    drawn_index, drawn_scale = space["get_inputs"]()
    assert torch.equal(drawn_index, index)
    assert drawn_scale.min() >= 1.0
    assert form.arguments == "x0, [x1], dtype=torch.float16, device=str(x1.device)"


def test_tests_that_import_their_own_file_are_recorded():
    tests = "import torch\nfrom task import scaled_sum\nscaled_sum(torch.ones(2), torch.ones(2))"
    assert len(posed(SCALED, tests)["calls"]) == 1


def test_an_expanded_input_is_refused():
    form = call_form("f", (torch.ones(1, 3).expand(4, 3),), {}, torch.ones(1), ())
    with pytest.raises(Unposable, match="expanded"):
        form.inputs(fresh=True)


def test_without_a_gpu_the_text_names_the_cpu():
    assert on_device("x.cuda()", "cpu") == "x.cpu()"
    assert on_device("x.cuda()", "cuda") == "x.cuda()"


# -- cases


def scripts(code=0, output="a"):
    return TaskScripts(True, {"code": 0, "output": "a"}, {"code": code, "output": output})


def case(checkout, calls, task_scripts, verdicts=(), unusable=()):
    file = next(file for file in checkout.files if file.stem == "scaled_sum")
    outcomes = Outcomes({name: ("", v) for name, v in dict(verdicts).items()}, dict(unusable))
    return case_of_prediction(file, PosedCalls(calls), task_scripts, outcomes, RECIPE)


def test_the_benchmarks_metrics_and_the_judge_are_told_apart(checkout):
    calls = task_line(call(1), call(2))
    both = {"scaled_sum/1": RIGHT, "scaled_sum/2": WRONG}
    line = case(checkout, calls, scripts(), both)
    assert (line["called"], line["executed"], line["correct"]) == (True, True, False)
    assert (line["right"], line["posed"], line["code"]) == (1, 2, "wrong_values")
    line = case(checkout, calls, scripts(code=1), dict.fromkeys(both, RIGHT))
    assert (line["called"], line["executed"], line["correct"]) == (False, False, True)
    line = case(checkout, calls, scripts(output="b"), dict.fromkeys(both, RIGHT))
    assert (line["called"], line["executed"]) == (True, False)


def test_a_task_that_cannot_be_posed_is_never_correct(checkout):
    refused = task_line(call(1, refused="an argument is a SGD"))
    del refused["calls"][0]["reference"]
    line = case(checkout, refused, scripts())
    assert (line["posable"], line["correct"], line["code"]) == (False, False, "not_posable")
    assert line["refused"] == {"an argument is a SGD": 1}
    line = case(checkout, task_line(call(1)), scripts(), unusable={"scaled_sum/1": "fails"})
    assert (line["posable"], line["correct"]) == (False, False)
    assert sum(line["refused"].values()) == 1


def test_what_our_side_failed_to_do_has_no_case(checkout):
    assert case(checkout, task_line(call(1)), scripts()) is None
    unrun = TaskScripts(True, None, None)
    assert case(checkout, task_line(call(1)), unrun, {"scaled_sum/1": RIGHT}) is None


def test_a_task_without_a_prediction_counts_against_it(checkout):
    line = case(checkout, task_line(call(1)), TaskScripts(False, None, None))
    assert (line["posable"], line["correct"], line["code"]) == (True, False, "unanswered")


def test_equal_calls_count_once():
    assert PosedCalls(task_line(call(1), call(1), call(2))).number == 2


def test_a_task_is_right_if_all_its_programs_are(checkout):
    file = next(file for file in checkout.files if file.stem == "scaled_sum")
    calls = PosedCalls(task_line(call(1, program="p"), call(2, program="q")))
    good, bad = [{"source": "x"}], [{"malformed": "no_code", "message": "none"}]

    def right(answers, verdicts):
        outcomes = Outcomes({name: ("", v) for name, v in verdicts.items()}, {})
        return case_of_answers(file, calls, answers, outcomes, RECIPE)

    both = right([("a", good), ("b", good)], {"a/0": RIGHT, "b/0": RIGHT})
    assert both["correct"]
    assert both["called"] is None
    assert not right([("a", good), ("b", bad)], {"a/0": RIGHT})["correct"]
    assert right([("a", []), ("b", bad)], {})["code"] == "unanswered"


# -- figures


def test_the_tables_count_all_tasks_and_say_why_some_are_not_posed(checkout):
    refused = task_line(refused="the tests fail: KeyError: 'x'")
    cases = [
        case(checkout, task_line(call(1)), scripts(), {"scaled_sum/1": RIGHT}),
        case(checkout, task_line(call(1)), scripts(), {"scaled_sum/1": WRONG}),
        case(checkout, refused, scripts(code=1)),
    ]
    score = score_of(cases)
    assert (score.tasks, score.called, score.posable, score.correct) == (3, 2, 2, 1)
    assert ("correct by the judge", "1", "3", "33.3%") in score_rows(score)
    assert ("not posed", "the tests fail: KeyError", "1") in reason_rows(cases)
    assert ("not correct", "wrong_values", "1") in reason_rows(cases)


class Runner:
    """A runner of scripts that only says whether the lock of its GPU is taken."""

    gpu = "7"

    def run(self, _text, _wall_s, _name):
        return ScriptOutcome(code=0, stdout=b"", stderr="", seconds=1.0)


def test_scripts_share_the_gpu_of_their_runner_with_others(monkeypatch, tmp_path):
    taken = []

    def lock(index, *, shared):
        taken.append((index, shared))
        return nullcontext()

    monkeypatch.setattr(stages, "gpus", lambda: ["5", "7"])
    monkeypatch.setattr(stages, "gpu_lock", lock)
    script = stages.BenchScript(name="a.py", text="")
    for device in ("cpu", "cuda"):
        plan = stages.StagePlan(out=tmp_path, channel="G", device=device, workers=1, timeout_s=1.0)
        assert stages._run(plan, Runner(), script)["code"] == 0
    assert taken == [(1, True)]


def test_golden_code_on_a_gpu_shares_the_gpu_with_others(monkeypatch):
    taken = []
    monkeypatch.setattr(posing, "gpu_lock", lambda *, shared: taken.append(shared) or nullcontext())
    job = {"name": "a.py", "golden": "", "tail": ""}
    for channel, device in (("G", "cpu"), ("T", "cuda"), ("G", "cuda")):
        pose_file({**job, "channel": channel, "device": device})
    assert taken == [True]


def test_results_come_as_they_are_ready_and_an_error_ends_all():
    opened = []

    class Owned:
        def __init__(self, number, _gpu):
            opened.append(number)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            opened.pop()

    assert sorted(spread([3, 1, 2], 2, Owned, lambda _, x: 2 * x)) == [2, 4, 6]
    with pytest.raises(ZeroDivisionError):
        list(spread([1, 0], 1, Owned, lambda _, x: 1 / x))
    assert list(spread([], 2, Owned, lambda _, x: x)) == []
    assert opened == []
