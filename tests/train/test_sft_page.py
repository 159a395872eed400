"""The page of a real run of supervised training, and the verb that writes it."""

import json

import pytest
import torch
from sft_runs import losses, make_recipe, make_rows, records, run, write_rows

from kernelwright.cli.main import main
from kernelwright.report.training.curves import charts
from kernelwright.report.training.page import page
from kernelwright.report.training.run import read_training
from kernelwright.report.training.tables import recipe_rows, values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of eight steps that was resumed for four more."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("page")
    pairs = write_rows(folder / "pairs.jsonl", make_rows(150))
    run(make_recipe(pairs, budget={"steps": 8}), folder / "first")
    run(make_recipe(pairs, budget={"steps": 12}), folder / "first", resume=True)
    other = {"learning_rate": 1e-3, "warmup_steps": 2}
    run(make_recipe(pairs, optimizer=other, budget={"steps": 6}), folder / "second")
    return folder


@pytest.mark.slow
def test_every_curve_has_the_values_of_the_records(folder):
    found = read_training(folder / "first")
    drawn = {chart.title: chart for chart in charts(found)}
    assert list(drawn) == [
        "Loss", "Loss on validation pairs", "Validation above training", "Learning rate",
        "Tokens a second", "Gradient norm",
    ]  # fmt: skip
    training, validation = drawn["Loss"].shapes
    own = losses(folder / "first")
    assert (len(training.dots), training.last) == (len(own), f"{own[12]:.3g}")
    validations = records(folder / "first", "validation")
    assert len(validation.dots) == len(validations)
    names = [shape.name for shape in drawn["Loss on validation pairs"].shapes]
    assert names == ["L1", "L2", "L5"]
    (gap,) = drawn["Validation above training"].shapes
    since = [own[step] for step in own if validations[-2]["step"] < step]
    assert gap.last == f"{validations[-1]['loss'] - sum(since) / len(since):.3g}"


def test_values_are_those_of_the_summary(folder):
    found = {value.name: value for value in values(read_training(folder / "first"))}
    summary = records(folder / "first", "summary")[-1]
    loss = found["validation loss"]
    assert (loss.best, loss.best_step) == (summary["best_loss"], summary["best_step"])
    assert found["tokens trained"].last == summary["tokens"]


def test_the_page_has_recipe_data_and_parts(folder):
    text = page(read_training(folder / "first"))
    assert "resumed 1x" in text
    assert "step-00000008" in text
    assert "batch.step_tokens" in text
    assert "pairs_trained" in text
    assert "GPU-hours" not in text or torch.cuda.is_available()


def test_report_writes_pages_and_compares(folder, capsys):
    paths = [str(folder / name) for name in ("first", "second")]
    with pytest.raises(SystemExit, match="0"):
        main(["report", *paths])
    streams = capsys.readouterr()
    assert "validation loss" in streams.out
    assert "comparison.html" in streams.err
    compared = (folder / "first" / "comparison.html").read_text()
    runs = [(name, read_training(folder / name)) for name in ("first", "second")]
    differing = [name for name, *_ in recipe_rows(runs, differing=True)[1:]]
    assert differing == ["budget.steps", "optimizer.learning_rate"]
    assert all(f"<td>{name}</td>" in compared for name in differing)
    with pytest.raises(SystemExit, match="0"):
        main(["report", paths[1], "--json"])
    (told,) = json.loads(capsys.readouterr().out)
    last = records(folder / "second", "validation")[-1]["loss"]
    assert (told["step"], told["values"]["validation loss"]["last"]) == (6, last)
