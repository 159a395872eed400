"""Pages of training runs from their records: parts joined, figures shown, texts escaped."""

import json

import pytest
from rl_records import (
    PROMOTED,
    RECIPE,
    ROLLOUTS,
    audit,
    example,
    lines,
    part,
    step,
    validation,
    verdict,
    write_rl,
)
from tags import assert_loads_nothing, tags_of

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.naming import names_of
from kernelwright.report.training.curves import charts, comparisons
from kernelwright.report.training.page import comparison, page
from kernelwright.report.training.run import is_training, read_training
from kernelwright.report.training.tables import ending_rows, flat, value_rows, values

HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def run(tmp_path):
    return read_training(write_rl(tmp_path / "run"))


def made(folder, found):
    return read_training(write_rl(folder, found))


def chart(run, title):
    (found,) = [each for each in charts(run) if each.title == title]
    return found


def sft_step(number, seconds):
    return {"record": "step", "step": number, "loss": 2.0, "seconds": seconds}


def sft_part(from_step, processes):
    return part(from_step, command="train sft", processes=processes)


def test_a_torn_last_line_is_left_out_and_stays_in_the_file(tmp_path):
    folder = write_rl(tmp_path, lines(5)[:-1])
    path = folder / "records.jsonl"
    torn = path.read_text() + json.dumps(step(6))[:-9]
    path.write_text(torn)
    assert read_training(folder).steps[-1]["step"] == 5
    assert path.read_text() == torn, "whoever writes it may be at it"


def test_what_a_resumed_run_trained_again_is_there_once(tmp_path):
    again = [part(6, steps_trained_again=4), *map(step, range(7, 13))]
    found = made(tmp_path, [part(), *map(step, range(1, 11)), validation(8), *again])
    assert [line["step"] for line in found.steps] == list(range(1, 13))
    assert found.validations == []
    assert len(found.parts) == 2
    assert "resumed 1x" in page(found)
    assert "step-00000006" in page(found)


def test_folders_without_a_step_are_refused(tmp_path):
    assert not is_training(tmp_path / "records.jsonl")
    with pytest.raises(UsageError, match="no training run"):
        read_training(tmp_path)
    with pytest.raises(UsageError, match="no step"):
        made(tmp_path, [part()])


def test_gpu_hours_are_those_of_all_parts_and_processes(tmp_path):
    parts = [sft_part(0, 2), sft_step(5, 1800.0), sft_part(5, 4), sft_step(9, 2700.0)]
    found = made(tmp_path / "sft", parts)
    assert found.gpu_hours == pytest.approx((1800 * 2 + 900 * 4) / 3600)
    running = made(tmp_path / "rl", lines(9)[:-1])
    assert running.gpu_hours == pytest.approx(9 * 20.0 / 3600)
    environment = part()["environment"] | {"gpu": None}
    assert made(tmp_path / "cpu", [part(environment=environment), step(1)]).gpu_hours is None


def test_the_runs_own_gpu_hours_are_what_counts(run):
    assert run.gpu_hours == 1.25
    assert ("GPU-hours", "1.25", "") in value_rows([("run", run)])
    assert "61 GB at most on a GPU" in page(run)


def test_a_run_that_goes_on_is_not_counted_by_the_end_of_its_last_part(tmp_path):
    found = made(tmp_path, [*lines(8), part(8), step(9)])
    assert found.gpu_hours == pytest.approx(9 * 20.0 / 3600)
    assert "not ended" in page(found)
    assert "not ended" not in page(made(tmp_path / "ended", lines(8)))


def test_steps_without_a_reward_or_a_verdict_have_no_value(tmp_path):
    """Every answer of them met a failure of ours."""
    lost = {"correct": None, "faster": None, "speedup": None, "own_kernel_share": None}
    lost |= {"reward": {"mean": None, "std": None}, "codes": {}, "infra": 61}
    lost["by_level"] = {"L1": {"rollouts": 64, "correct": None, "faster": None}}
    lost["groups"] = {"mixed": 0, "all_right": 0, "all_wrong": 0}
    found = made(tmp_path / "one", [part(), step(1) | lost])
    rows = {name: cells for name, *cells in ending_rows(found)}
    assert rows["failures of the tool"] == ["95.3%", "95.3%"]
    assert rows["reward, mean"] == ["", ""]
    assert "Reward" not in {each.title for each in charts(found)}
    tags_of(page(found))
    (shape, _) = chart(made(tmp_path / "two", [*lines(3), step(4) | lost]), "Reward").shapes
    assert len(shape.dots) == 3


def test_last_and_best_values_are_those_of_the_records(run):
    found = {value.name: value for value in values(run)}
    pass_1 = found["pass@1 L10"]
    assert (pass_1.last, pass_1.best_step) == (validation(20)["by_level"]["L10"]["pass@1"], 20)
    reward = found["reward"]
    assert reward.last == step(20)["reward"]["mean"] == reward.best
    assert found["KL"].best is None
    assert found["rollouts so far"].last == 20 * ROLLOUTS
    assert [name for name in found if name.startswith("pass@1")] == [
        "pass@1 L1", "pass@1 L2", "pass@1 L10",
    ]  # fmt: skip


def test_rejections_are_shares_of_rollouts_by_reason(run):
    found = chart(run, "Rollouts that are not accepted, by reason")
    names = {shape.name: shape.last for shape in found.shapes}
    assert names == {
        "answer: cut off": "3.12%",
        "answer: no code": "1.56%",
        "decoy": "0%",
        "wrong values": "15.6%",
    }
    assert [mark.text for mark in found.marks] == ["L1 to L1 + L2"]


def test_what_became_of_rollouts_adds_up(run):
    head, *rows = ending_rows(run)
    assert head == ("rollouts", "steps 1 to 2", "steps 19 to 20")
    shares = [row for row in rows if not row[0].startswith("reward")]
    for column in (1, 2):
        assert sum(float(row[column][:-1]) for row in shares) == pytest.approx(100, abs=0.1)


def test_a_steps_seconds_are_stacked_without_what_goes_on_beside(run):
    found = chart(run, "Where a step's seconds go")
    assert [(shape.name, shape.last) for shape in found.shapes] == [
        ("decode", "10"), ("judge wait", "4"), ("learn", "3"),
        ("lock wait", "2"), ("other", "1"),
    ]  # fmt: skip


def test_the_page_shows_audits_and_the_same_program_early_and_late(run):
    text = page(run)
    assert "1 of 2 differ" in text
    assert text.index("reward 2") < text.index("reward 0.4"), "the most rewarded first"
    assert "<summary>exp, clamp</summary>" in text
    assert "no candidate in it" in text
    assert "accepted, 1.50x" in text
    assert "seen once" not in text


def test_the_page_is_html_that_loads_nothing(run):
    assert_loads_nothing(page(run))


def test_what_models_and_recipes_say_is_escaped(tmp_path):
    head = part(recipe=RECIPE | {"objective": HOSTILE})
    refused = step(1) | {"codes": {HOSTILE: 64}, "level_mix": {HOSTILE: 1.0}}
    folder = write_rl(tmp_path, [head, refused])
    record.append(folder / "audits.jsonl", [audit(1, 9.0, source=HOSTILE)])
    hostile = verdict() | {"accepted": False, "code": HOSTILE, "message": HOSTILE}
    texts = [example(n, HOSTILE, hostile, program=HOSTILE) for n in (1, 2)]
    record.append(folder / "examples.jsonl", texts)
    text = page(read_training(folder))
    assert "alert(1)" in text
    assert "<script" not in text
    assert "script" not in tags_of(text).tags


def test_without_times_nothing_is_said_of_speed(tmp_path):
    found = made(tmp_path, lines(timed=False))
    titles = {each.title for each in charts(found)}
    assert "Correct, of rollouts" in titles
    assert not [title for title in titles if title.startswith(("Speed-up", "Faster", "GPU time"))]
    assert not [value for value in values(found) if value.name.startswith(("faster", "speed-up"))]
    tags_of(page(found))


def test_compared_runs_have_a_line_each_and_the_settings_that_differ(tmp_path, run):
    recipe = part(recipe=RECIPE | {"objective": "grpo"})
    other = made(tmp_path / "other", [recipe, *lines(PROMOTED)[1:]])
    found = {each.title: each for each in comparisons([("run", run), ("other", other)])}
    reward = found["Reward: mean"]
    assert [shape.name for shape in reward.shapes] == ["run", "other"]
    assert [shape.last for shape in reward.shapes] == ["0.781", "0.531"]
    assert "pass@1 on validation programs: L10" in found
    text = comparison([run, other])
    assert "objective" in text
    assert "grpo" in text
    assert "model.path" not in text
    tags_of(text)


def test_a_run_that_lacks_a_line_keeps_its_colour(tmp_path):
    runs = [made(tmp_path / name, lines(5, timed=name == "timed")) for name in ("cpu", "timed")]
    found = comparisons(list(zip(("cpu", "timed"), runs, strict=True)))
    (speed,) = [each for each in found if each.title == "Speed-up of correct rollouts"]
    assert [(shape.name, shape.color, shape.last) for shape in speed.shapes] == [
        ("cpu", 0, ""), ("timed", 1, "1.10x"),
    ]  # fmt: skip


def test_runs_are_named_by_as_much_of_their_paths_as_tells_them_apart(tmp_path):
    runs = [made(tmp_path / name, lines(1)) for name in ("a/drpo", "b/drpo", "b/grpo")]
    assert names_of([run.folder for run in runs[1:]]) == ["drpo", "grpo"]
    assert names_of([run.folder for run in runs[:2]]) == ["a/drpo", "b/drpo"]


def test_settings_are_named_as_in_recipes():
    assert flat({"a": {"b": 1, "c": None}, "d": [1, 2], "e": 1e-5, "f": 131072, "g": True}) == {
        "a.b": "1", "d": "1, 2", "e": "1e-05", "f": "131,072", "g": "True",
    }  # fmt: skip
