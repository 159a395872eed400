import verdicts
from pairs_data import pair_line, recipe, shard_file

from kernelwright.core import record
from kernelwright.core.verdict import Code, Stage
from kernelwright.data.pairs.assemble import assemble
from kernelwright.data.pairs.card import card
from kernelwright.data.pairs.select import select

MADE = recipe({"name": "a", "level": 1, "programs": 1}, title="Some pairs", verify={"share": 0.5})


def verdict(code, stage, message=""):
    return verdicts.verdict(code, stage=stage, message=message, device="cpu-interpreter")


def assembled(tmp_path):
    lines = [
        pair_line("a/0/0", "one"),
        pair_line("a/1/0", "two", canonical="q", split="validation"),
        pair_line("a/2/0", "three", level=5),
        pair_line("a/3/0", "three"),
        pair_line("a/4/0", "three", level=5),
        pair_line("a/5/0", "four"),
        pair_line("a/6/0", "five"),
    ]
    paths = [shard_file(tmp_path, "a-00000.jsonl", lines, **{"no form": 4})]
    verdicts = {
        "a/0/0": verdict(Code.OK, Stage.ACCEPTED),
        "a/2/0": verdict(Code.WRONG_VALUES, Stage.COMPARE, "off by 3"),
        "a/5/0": None,
        "a/6/0": verdict(Code.TIMEOUT, Stage.RUN),
    }
    return assemble(paths, select(paths, MADE), verdicts, MADE, tmp_path)


def test_what_is_rejected_is_a_negative_with_its_reason(tmp_path):
    summary = assembled(tmp_path)
    (negative,) = record.read(tmp_path / "negatives.jsonl")
    assert negative["id"] == "a/2/0"
    assert (negative["verdict"], negative["stage"]) == ("wrong_values", "compare")
    assert negative["message"] == "off by 3"
    assert summary["rejected"] == {"wrong_values": 1, "no_task": 1, "too_slow_to_interpret": 1}


def test_the_others_are_on_their_side_with_what_is_known(tmp_path):
    summary = assembled(tmp_path)
    (train,) = record.read(tmp_path / "train.jsonl")
    (validation,) = record.read(tmp_path / "validation.jsonl")
    assert (train["id"], train["verdict"]) == ("a/0/0", "ok")
    assert (validation["id"], validation["verdict"]) == ("a/1/0", "unverified")
    assert summary["split"] == {"train": 1, "validation": 1}
    assert summary["characters"][1]["total"] == 6


def test_the_card_tells_counts_and_what_was_dropped(tmp_path):
    text = card(MADE, assembled(tmp_path))
    assert text.startswith("---\nconfigs:")
    assert "# Some pairs" in text
    assert "2 pairs of 2 programs: 1 to train on, 1 held back" in text
    assert "| wrong_values | 1 | 33.3% |" in text
    assert "| a | 7 | 7 | 4 no form, 2 duplicate |" in text
    assert "missing: " in text
    assert "relu6" in text.partition("## Coverage")[2]
