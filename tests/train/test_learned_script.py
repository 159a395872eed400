"""recipes/learned.sh: every step once, in order, as far as time goes; a run that ended goes on."""

import os
import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "recipes" / "learned.sh"


def run(folder, seconds=600, step="", **more):
    """The commands that the script gives. The command here only writes them down."""
    fake = folder / "kw.sh"
    fake.write_text(
        f'#!/bin/bash\necho "$*" >> {folder}/calls\n[ "$3" != "$FAIL" ] || exit 1\n'
        f'echo "$CUDA_VISIBLE_DEVICES" >> {folder}/cards\n'
        'if [ "$2" = pool ]; then mkdir -p "$5/shards" "$5/judged"; fi\n'
    )
    fake.chmod(0o755)
    (folder / "calls").unlink(missing_ok=True)
    environment = {**os.environ, "KW": str(fake), "FAIL": "no command", "GPUS": "1", **more}
    subprocess.run(
        [SCRIPT, folder / "out", str(seconds), *step.split()],
        env=environment,
        check=False,
        capture_output=True,
    )
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_every_step_is_done_once(tmp_path):
    calls = run(tmp_path)
    names = [" ".join(call.split()[:2]) for call in calls]
    assert names[:2] == ["eval synthetic"] * 2, "no training before the first pool"
    assert names.index("data build") < names.index("train sft"), "the replay"
    starts = [call for call in calls if call.startswith(("train rl", "data pool"))]
    assert sum('.path="embedded"' in call for call in starts) == len(starts) - 1, "all but pool-2"
    assert names.count("data pool") == 3, "two writers, and values alone"
    assert names.count("train rl") == 18, "eight and one runs, two seeds"
    assert names.count("data fastest") == 3
    assert run(tmp_path) == [], "everything is there"


def test_runs_go_side_by_side_on_the_gpus(tmp_path):
    run(tmp_path)
    (tmp_path / "cards").unlink()
    for done in (tmp_path / "out").glob("drpo*.done"):
        done.unlink()
    run(tmp_path, step="learned", GPUS="4")
    cards = (tmp_path / "cards").read_text().split()
    assert sorted(cards) == ["0", "2"], "the first and the third of four runs"


def test_jobs_share_a_gpu(tmp_path):
    calls = run(tmp_path, JOBS="2")
    cards = (tmp_path / "cards").read_text().split()
    assert set(cards) == {"0"}
    judges = {re.search(r"--workers (\d+)", call)[1] for call in calls if "eval synthetic" in call}
    assert judges == {"6"}, "two evaluations share twelve judges"


def test_a_step_that_failed_is_done_again_and_what_needs_it_waits(tmp_path):
    recipe = SCRIPT.parent / "pool" / "embedded.toml"
    calls = run(tmp_path, FAIL=str(recipe))
    assert not any("train rl" in call for call in calls)
    again = run(tmp_path)
    assert again[0].startswith("data pool")
    repeated = set(calls) & set(again)
    assert repeated, "the pools"
    assert all(call.startswith("data pool") for call in repeated)
    assert sum("train rl" in call for call in again) == 18


def test_a_further_training_on_best_answers_is_a_step_of_its_own(tmp_path):
    calls = run(tmp_path, step="supervised", START="elsewhere")
    names = [" ".join(call.split()[:2]) for call in calls]
    assert names == ["data build", "train sft", "train sft"]
    assert all('model.path="elsewhere"' in call for call in calls[1:])


def test_pairs_of_real_modules_are_a_step_of_their_own(tmp_path):
    calls = run(tmp_path, step="taught")
    names = [" ".join(call.split()[:2]) for call in calls]
    assert names == ["data collect"] * 6 + ["data build", "train sft"]


def test_nothing_is_begun_without_time(tmp_path):
    assert run(tmp_path, seconds=20) == []


def test_the_recipes_it_names_are_there():
    names = set(re.findall(r"\b(?:data|sft|pool|rl)/[\w-]+\.toml", SCRIPT.read_text()))
    assert len(names) >= 6
    for name in names:
        assert (SCRIPT.parent / name).is_file(), name
