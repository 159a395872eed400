"""Runs end to end: what is learnt, what is written, and that being interrupted changes nothing."""

import json
import os
import resource
import shutil
import signal
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from record_kinds import faults_in
from sft_runs import (
    kill_at,
    losses,
    make_recipe,
    make_rows,
    make_tokenizer,
    records,
    run,
    run_in_two,
    save_qwen2,
    script,
    write_rows,
)
from transformers import AutoModelForCausalLM, AutoTokenizer

from kernelwright.core.errors import UsageError
from kernelwright.train import checkpoints, pace
from kernelwright.train.folder import open_folder
from kernelwright.train.installed import check_installed
from kernelwright.train.records import tensorboard


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """An epoch of them is some eight steps of the recipe: runs of twelve see a second one."""
    return write_rows(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", make_rows(150))


@pytest.fixture(scope="module")
def whole(pairs, tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(make_recipe(pairs), folder)
    return folder


def test_the_run_that_others_are_compared_with_reaches_its_second_epoch(whole):
    epochs = [line["epoch"] for line in records(whole, "step")]
    assert epochs[6] < 1 < epochs[-1]
    assert list(losses(whole)) == list(range(1, 13))


def test_a_run_without_tensorboard_has_no_curves(monkeypatch, tmp_path):
    monkeypatch.setattr("kernelwright.train.records.find_spec", lambda _: None)
    assert tensorboard(tmp_path, 0) == []
    check_installed()


@pytest.mark.slow
def test_a_model_by_path_learns_and_loads_in_plain_transformers(pairs, tmp_path):
    save_qwen2(tmp_path / "qwen2", make_tokenizer())
    recipe = make_recipe(
        pairs,
        model={"path": str(tmp_path / "qwen2")},
        optimizer={"learning_rate": 3e-3},
        validation={"every_steps": 20},
        budget={"steps": None, "epochs": 2.0},
    )
    ended = run(recipe, tmp_path / "run")
    found = losses(tmp_path / "run")
    assert records(tmp_path / "run", "step")[-1]["epoch"] == 2
    assert found[ended.standing.step] < 0.6 * found[1]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "last")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "last")
    assert model.dtype == torch.bfloat16
    row = next(iter(make_rows(1)))
    prompt = tokenizer.apply_chat_template(
        row["prompt"], add_generation_prompt=True, return_tensors="pt"
    )
    written = model.generate(**prompt, max_new_tokens=8, do_sample=False)
    begun = tokenizer.decode(written[0, prompt["input_ids"].shape[1] :])
    assert begun.startswith("<plan>\n"), "the form of answers is what is learnt first"


def test_records_tell_of_levels_and_best_weights(whole):
    (part,) = records(whole, "part")
    assert faults_in(whole / "records.jsonl") == set()
    assert part["data"]["pairs"] == 150
    validations = records(whole, "validation")
    assert [line["step"] for line in validations] == [6, 12]
    assert validations[0]["by_level"].keys() == {"1", "2", "5"}
    best = min(validations, key=lambda line: line["loss"])
    (summary,) = records(whole, "summary")
    assert (summary["best_loss"], summary["best_step"]) == (best["loss"], best["step"])
    assert summary["tokens"] == records(whole, "step")[-1]["tokens"]
    assert list((whole / "tensorboard").iterdir())


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(pairs, whole, tmp_path):
    folder = tmp_path / "run"
    kill_at(10, script("sft_runs", repr(str(pairs)), folder))
    path, older = checkpoints.all_checkpoints(folder / "checkpoints")
    assert (path.name, older.name) == ("step-00000008", "step-00000004")
    os.truncate(path / "optimizer.pt", 1000)  # what a disk without power may leave
    shutil.copytree(path, path.parent / ".writing-step-00000012")
    run(make_recipe(pairs), folder, resume=True)
    part = records(folder, "part")[1]
    assert part["from_step"] == 4
    assert part["steps_trained_again"] >= 6
    assert losses(folder) == losses(whole)
    assert not list(path.parent.glob(".writing*"))


@pytest.mark.slow
def test_sigterm_ends_a_run_with_a_checkpoint(pairs, whole, tmp_path):
    def say(line):
        if line.startswith("step 5 "):
            os.kill(os.getpid(), signal.SIGTERM)

    folder = tmp_path / "run"
    ended = run(make_recipe(pairs), folder, say=say)
    assert ended.stopped_by == signal.SIGTERM
    assert ended.standing.step == 6, "the step after the one whose record was being written"
    assert not run(make_recipe(pairs), folder, resume=True).stopped_by
    assert losses(folder) == losses(whole)
    assert records(folder, "summary")[-1]["tokens"] == records(whole, "summary")[-1]["tokens"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("limit_bytes", [40_000, 100])
def test_a_full_disk_leaves_the_old_checkpoint_and_is_told(pairs, whole, tmp_path, limit_bytes):
    """Checkpoints are larger than the one limit, the records alone than the other."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def say(line):
        if line.startswith("step 5 "):  # no file may grow further: the system refuses to write
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))

    folder = tmp_path / "run"
    try:
        with pytest.raises(UsageError, match="disk takes no more") as caught:
            run(make_recipe(pairs), folder, say=say)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "--resume" in caught.value.remedy
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step-00000004"]
    run(make_recipe(pairs), folder, resume=True)
    assert losses(folder) == losses(whole)


def test_a_disk_that_is_still_full_takes_no_recipe_away(pairs, tmp_path):
    folder = tmp_path / "run"
    open_folder(make_recipe(pairs), folder, resume=False)
    recipe = (folder / "recipe.json").read_text()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(UsageError, match="disk takes no more"):
            open_folder(make_recipe(pairs), folder, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (folder / "recipe.json").read_text() == recipe
    assert [path.name for path in folder.iterdir()] == ["recipe.json"]


def test_weights_alone_are_gone_on_from_with_a_new_optimizer(pairs, tmp_path):
    folder = tmp_path / "run"
    run(make_recipe(pairs), folder)
    shutil.rmtree(folder / "checkpoints")
    run(make_recipe(pairs, budget={"steps": 16}), folder, resume=True)
    part = records(folder, "part")[1]
    assert (part["from_step"], part["from"], part["optimizer_began"]) == (12, "last", 12)
    steps = {line["step"]: line for line in records(folder, "step")}
    assert abs(steps[13]["loss"] - steps[12]["loss"]) < 0.3
    rates = [steps[step]["learning_rate"] for step in (13, 14, 15)]
    assert rates[0] < rates[1], "it warms up again"
    assert rates[2] < 1e-2 * (1 - 12 / 16), "on the way down of the whole budget"


def test_a_finished_run_is_not_trained_further(pairs, whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(folder / "last")  # as if it had been killed before it wrote them
    for _ in range(2):
        assert run(make_recipe(pairs), folder, resume=True).standing.step == 12
        assert losses(folder) == losses(whole)
        found, wanted = (each / "last" / "model.safetensors" for each in (folder, whole))
        assert found.read_bytes() == wanted.read_bytes()
        assert json.loads((folder / "last" / "trainer_state.json").read_text())["global_step"] == 12


def test_the_clock_ends_a_run(pairs, tmp_path, monkeypatch):
    """The clock moves by 0.1 s whenever it is read: once a step, and once a checkpoint."""
    readings = count()
    clock = SimpleNamespace(monotonic=lambda: 0.1 * next(readings))
    monkeypatch.setattr(pace, "time", clock)
    recipe = make_recipe(pairs, budget={"steps": None, "minutes": 0.02})
    ended = run(recipe, tmp_path / "run")
    assert 6 <= ended.standing.step <= 12
    assert ended.standing.seconds == pytest.approx(1.25, abs=0.06)
    rates = [line["learning_rate"] for line in records(tmp_path / "run", "step")]
    assert rates[-1] < max(rates), "the way down is taken by the clock"


@pytest.mark.slow
def test_adapters_alone_are_trained_and_saved(pairs, tmp_path):
    model = save_qwen2(tmp_path / "qwen2", make_tokenizer())
    recipe = make_recipe(
        pairs,
        model={"path": str(tmp_path / "qwen2"), "lora": {"rank": 4}, "dtype": "bfloat16"},
        optimizer={"learning_rate": 3e-2},
        budget={"steps": 6},
    )
    run(recipe, tmp_path / "run")
    found = losses(tmp_path / "run")
    assert found[6] < 0.97 * found[1]
    last = tmp_path / "run" / "last"
    assert sum(path.stat().st_size for path in last.glob("*.safetensors")) < 500_000
    adapted = AutoModelForCausalLM.from_pretrained(last)
    before = model.model.layers[0].mlp.up_proj.weight
    after = adapted.model.layers[0].mlp.up_proj
    assert torch.allclose(after.base_layer.weight.float(), before, rtol=2**-8, atol=0)
    assert after.lora_B.default.weight.any()


@pytest.mark.slow
def test_two_processes_train_as_one_does(pairs, whole, tmp_path):
    """Each takes one of the two forward passes of a step."""
    folder = tmp_path / "run"
    run_in_two(tmp_path, script("sft_runs", repr(str(pairs)), folder))
    first_epoch = [line["step"] for line in records(whole, "step") if line["epoch"] < 1]
    assert len(first_epoch) > 6, "the first validation is in it"
    for step in first_epoch:
        assert losses(folder)[step] == pytest.approx(losses(whole)[step], rel=1e-5)
    one, two = (records(each, "validation")[0] for each in (whole, folder))
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["tokens"] == one["tokens"]
    (part,) = records(folder, "part")
    assert part["processes"] == 2
    assert checkpoints.is_whole(folder / "checkpoints" / "step-00000012")
