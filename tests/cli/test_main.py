"""The command line: exit codes, what goes to which stream, and nothing written on bad input."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cli_runs import verdict
from search_records import cpu_run, unchanged_run

from kernelwright.cli.optimize import default_name
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.progress import Progress


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    """The files that the commands name, in the folder where they run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("model.py", "m.py", "ref.py", "cand.py", "folder/cand.py"):
        (tmp_path / name).write_text("import torch\n")


@pytest.fixture
def fake(monkeypatch):
    """Stand a fake in for a module that a verb loads late."""

    def put(module, **names):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**names))

    return put


def recorded(records, out):
    """Write the records of a search, and return the result record."""
    record.append(out / "records.jsonl", records)
    return records[-1]


def optimizes(target, options, *, out, progress, **rest):
    progress(Progress(stage="writing"))
    return recorded(cpu_run(), out)


def raises(error):
    def fail(*args, **kwargs):
        raise error

    return fail


def says(verdict):
    def verify(*args, **options):
        return verdict

    return verify


def test_optimize_prints_the_table_and_writes_the_page(run, fake, tmp_path):
    fake("kernelwright.search.optimize", optimize_target=optimizes)
    done = run("optimize", "model.py", "--out", str(tmp_path / "o"))
    assert done.code == 0
    assert "not timed" in done.out
    assert "25.2 MB" in done.out
    assert "writing" in done.err
    assert (tmp_path / "o" / "report.html").is_file()


def test_the_first_line_comes_before_the_search_is_imported(run, fake, tmp_path):
    fake("kernelwright.search.optimize")
    done = run("optimize", "model.py", "--out", str(tmp_path / "o"))
    assert done.err.splitlines()[0] == "0:00 of 10:00  loading: model.py"
    assert "cannot import name 'optimize_target'" in done.err


def test_a_model_that_failed_is_named(run, fake, tmp_path):
    def optimize(target, options, *, out, **rest):
        *lines, result = cpu_run()
        result["failed_sources"] = [{"origin": "openai:x#m", "message": "503"}]
        return recorded([*lines, result], out)

    fake("kernelwright.search.optimize", optimize_target=optimize)
    done = run("optimize", "model.py", "--out", str(tmp_path / "o"))
    assert done.code == 0
    assert "openai:x#m failed and was asked no more: 503" in done.err


def test_json_is_all_there_is_on_stdout(run, fake, tmp_path):
    fake("kernelwright.search.optimize", optimize_target=optimizes)
    done = run("optimize", "model.py", "--out", str(tmp_path / "o"), "--json")
    assert json.loads(done.out)["num_triton"] == 2


def test_an_unchanged_module_is_named_with_its_cause_and_with_the_work_left_out(
    run, fake, tmp_path
):
    records = unchanged_run()
    outcome = records[-1]["outcome"]
    outcome["left_out"] = ["1 candidate was cut off by the clock."]

    def optimize(target, options, *, out, **rest):
        return recorded(records, out)

    fake("kernelwright.search.optimize", optimize_target=optimize)
    done = run("optimize", "model.py", "--out", str(tmp_path / "o"))
    assert done.code == 0
    assert "unchanged" in done.out
    assert "rejected" not in done.out
    assert " ".join(done.out.split()).endswith(outcome["message"]), "the cause stands last"
    assert "1 candidate was cut off by the clock." in done.err


def test_bad_input_exits_2_names_the_place_and_writes_nothing(run, fake, tmp_path):
    error = UsageError("no Model", file="m.py", line=3, remedy="define one")
    fake("kernelwright.search.optimize", optimize_target=raises(error))
    done = run("optimize", "m.py", "--out", str(tmp_path / "o"))
    assert done.code == 2
    assert "m.py:3: no Model" in done.err
    assert "remedy: define one" in done.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("error", [InfraError("no guest"), RuntimeError("a bug")], ids=type)
def test_our_own_failure_exits_3(run, fake, tmp_path, error):
    fake("kernelwright.search.optimize", optimize_target=raises(error))
    done = run("optimize", "m.py", "--out", str(tmp_path / "o"))
    assert done.code == 3
    assert "our side failed" in done.err
    assert str(error) in done.err


@pytest.mark.parametrize(
    "argv",
    [
        ["optimize"],
        ["optimize", "m.py", "--device", "tpu"],
        ["optimize", "m.py", "--budget", "0"],
        ["verify", "ref.py"],
        ["verify", "ref.py", "cand.py", "--advise", "some-model"],
        ["verify", "ref.py", "cand.py", "--timeout", "0"],
        ["ops", "--family", "nonsense"],
        ["report"],
    ],
    ids=" ".join,
)
def test_bad_usage_exits_2(run, argv):
    done = run(*argv)
    assert done.code == 2
    assert done.out == ""
    assert done.err


@pytest.mark.parametrize(("accepted", "code"), [(True, 0), (False, 1)])
def test_verify_exits_by_the_verdict(run, fake, accepted, code):
    found = verdict(accepted)
    fake("kernelwright.verify.api", verify=says(found))
    assert run("verify", "ref.py", "cand.py").code == code
    done = run("verify", "ref.py", "cand.py", "--json")
    assert done.code == code
    assert json.loads(done.out) == json.loads(json.dumps(found.to_json()))


def test_verify_is_hybrid_by_default_and_passes_options_on(run, fake):
    seen = {}

    def verify(ref, candidate, **options):
        seen.update(options, ref=ref, candidate=str(candidate))
        return verdict(True)

    fake("kernelwright.verify.api", verify=verify)
    run("verify", "ref.py", "cand.py", "--precision", "tf32", "--timeout", "7")
    seen.pop("progress")("loading")
    assert seen == {
        "ref": "ref.py",
        "candidate": "cand.py",
        "device": "auto",
        "precision": "tf32",
        "mode": "hybrid",
        "contract": "fixed",
        "timeout_s": 7.0,
        "adviser": None,
        "large": False,
        "training": None,
    }


def test_modules_are_optimized_in_eval_mode_unless_the_user_says_otherwise(run, fake):
    modes = []

    def optimize(target, options, **rest):
        modes.append(options.training)
        return optimizes(target, options, **rest)

    fake("kernelwright.search.optimize", optimize_target=optimize)
    for option in ([], ["--eval"], ["--train"]):
        assert run("optimize", "model.py", *option).code == 0
    assert modes == [False, False, True]


def test_a_wrong_name_of_a_package_is_refused_before_the_search(run, fake):
    fake("kernelwright.search.optimize", optimize_target=raises(RuntimeError("a search began")))
    done = run("optimize", "model.py", "--export", "model.zip")
    assert done.code == 2
    assert "end the name in .pt2" in done.err


def test_verify_leaves_the_mode_to_the_reference_unless_the_user_chooses(run, fake):
    modes = []

    def verify(*args, training, **options):
        modes.append(training)
        return verdict(True)

    fake("kernelwright.verify.api", verify=verify)
    for option in ([], ["--eval"], ["--train"]):
        run("verify", "ref.py", "cand.py", *option)
    assert modes == [None, False, True]


def test_verify_names_the_candidates_line_and_says_what_it_does(run, fake):
    def verify(ref, candidate, *, progress, **options):
        progress("loading")
        return replace(verdict(False, "writes past its output"), line=12)

    fake("kernelwright.verify.api", verify=verify)
    done = run("verify", "ref.py", "folder/cand.py")
    assert "folder/cand.py:12: rejected: writes past its output" in done.out
    assert "verify: loading" in done.err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            UsageError("no Model", file="m.py", line=3, remedy="define one"),
            2,
            {
                "kind": "usage",
                "message": "no Model",
                "file": "m.py",
                "line": 3,
                "remedy": "define one",
            },
        ),
        (InfraError("no guest"), 3, {"kind": "infra", "message": "no guest"}),
        (RuntimeError("a bug"), 3, {"kind": "infra", "message": "a bug"}),
    ],
    ids=["usage", "infra", "bug"],
)
def test_under_json_an_error_is_an_object_too(run, fake, error, code, said):
    fake("kernelwright.verify.api", verify=raises(error))
    done = run("verify", "ref.py", "cand.py", "--json")
    assert done.code == code
    error = json.loads(done.out)["error"]
    assert said.items() <= error.items()


def test_markup_in_a_message_is_printed_as_it_is(run, fake):
    found = verdict(False, "line 3: [red]x[/red] [/nonsense]")
    fake("kernelwright.verify.api", verify=says(found))
    assert "[red]x[/red] [/nonsense]" in run("verify", "ref.py", "cand.py").out


def test_ops_lists_one_family_as_json(run):
    done = run("ops", "--family", "pointwise", "--json")
    table = {operator["name"]: operator for operator in json.loads(done.out)}
    assert table["relu"]["signature"].startswith("torch.relu(")
    assert {operator["family"] for operator in table.values()} == {"pointwise"}


def test_ops_prints_every_operator(run):
    names = [operator["name"] for operator in json.loads(run("ops", "--json").out)]
    printed = run("ops").out
    assert len(names) > 60
    assert all(name in printed for name in names)


def test_report_rebuilds_pages_and_the_table(run, tmp_path):
    for name in ("a", "b"):
        recorded(cpu_run(), tmp_path / name)
    done = run("report", str(tmp_path / "a"), str(tmp_path / "b"))
    assert done.code == 0
    assert done.out.count("linear + gelu") == 2
    assert (tmp_path / "b" / "report.html").is_file()


@pytest.mark.parametrize(
    ("target", "name"), [("models/mlp.py", "mlp"), ("mlp.py", "mlp"), ("package.models:mlp", "mlp")]
)
def test_the_default_folder_is_named_after_the_target(target, name):
    assert default_name(target) == name


def test_version(run):
    assert run("--version").out.startswith("0.")
