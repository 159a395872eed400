"""Which tokens are trained: those of the answer and its end, and no other."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sft_runs import make_rows, make_tokenizer, write_rows

from kernelwright.core.errors import UsageError
from kernelwright.policy.answer import read_answer
from kernelwright.policy.tokenizer import ASSISTANT, END, USER
from kernelwright.train.pairs import TrainingPair, parts_of
from kernelwright.train.tokens import PairTokenizer, marked_template, token_dataset

TOKENIZER = make_tokenizer()
HOW = PairTokenizer(tokenizer=TOKENIZER, template=TOKENIZER.chat_template, max_tokens=256)
UNMARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content "
    "+ '<|im_end|>\n' }}{% endfor %}"
)


def pair(*contents):
    roles = ("user", "assistant") * len(contents)
    messages = [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=False)
    ]
    return TrainingPair(
        prompt=messages[:-1], completion=messages[-1:], level=1, source="x", split="train"
    )


def parts(ids, trained):
    """The text, cut where training begins or ends: (trained, text) each."""
    cuts = [0, *(np.flatnonzero(np.diff(trained)) + 1).tolist(), len(ids)]
    return [(bool(trained[a]), TOKENIZER.decode(ids[a:b])) for a, b in pairwise(cuts)]


def test_the_answer_and_its_end_are_trained_token_by_token():
    asked, answered = "add 12 and 345?", "<plan>\nfuses: add\n</plan>\n357"
    ((ids, trained),) = HOW.tokenize([pair(asked, answered)])
    assert parts(ids, trained) == [(False, USER + asked + ASSISTANT), (True, answered + END)]
    assert [token for token, on in zip(ids, trained, strict=True) if on] == [
        *TOKENIZER(answered)["input_ids"],
        TOKENIZER.eos_token_id,
    ]


def test_earlier_answers_of_a_conversation_are_not_trained():
    ((ids, trained),) = HOW.tokenize([pair("a?", "wrong", "no", "right")])
    assert [text for on, text in parts(ids, trained) if on] == ["right" + END]


def test_a_plan_alone_ends_the_row_with_the_plan():
    how = replace(HOW, plans_alone=frozenset({"x"}))
    answered = "<plan>\nfuses: add\n</plan>\n```python\n357\n```"
    ((ids, trained),) = how.tokenize([pair("add 12 and 345?", answered)])
    whole, asked = (TOKENIZER.decode(ids), USER + "add 12 and 345?" + ASSISTANT)
    assert whole == asked + "<plan>\nfuses: add\n</plan>"
    assert parts(ids, trained)[0] == (False, asked)
    assert trained[-1]


def test_sources_whose_plan_alone_is_learned_lose_their_pairs_without_plans(tmp_path):
    rows = [row | {"source": "x" if number % 3 else "y"} for number, row in enumerate(make_rows(9))]
    for row in rows[2::3]:
        row["completion"][0]["content"] = "code"
    write_rows(tmp_path / "a.jsonl", rows)
    how = replace(HOW, plans_alone=frozenset({"x"}))
    kept, _ = token_dataset([tmp_path / "a.jsonl"], how, folder=tmp_path / "tokens", workers=1)
    assert sorted(kept["source"][:]) == ["x"] * 3 + ["y"] * 3
    assert how.digest([tmp_path / "a.jsonl"]) != HOW.digest([tmp_path / "a.jsonl"])


def test_templates_that_trl_knows_are_marked_and_stay_the_tokenizers_own():
    from trl.chat_template_utils import qwen2_5_chat_template

    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = qwen2_5_chat_template
    how = PairTokenizer(tokenizer=tokenizer, template=marked_template(tokenizer), max_tokens=256)
    ((ids, trained),) = how.tokenize([pair("a?", "b", "c?", "answer")])
    kept = [token for token, on in zip(ids, trained, strict=True) if on]
    assert tokenizer.decode(kept).rstrip("\n") == "answer<|im_end|>"
    assert tokenizer.decode(ids).startswith("<|im_start|>system")
    assert tokenizer.chat_template == qwen2_5_chat_template


def test_a_template_without_marks_is_refused():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = UNMARKED
    with pytest.raises(UsageError, match="does not mark") as caught:
        marked_template(tokenizer)
    assert "generation" in caught.value.remedy
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no one chat template"):
        marked_template(tokenizer)


def dataset(files, folder, *, max_tokens=256, workers=1):
    files = sorted(files.glob("*")) if files.is_dir() else [files]
    how = PairTokenizer(
        tokenizer=TOKENIZER, template=TOKENIZER.chat_template, max_tokens=max_tokens
    )
    made, _ = token_dataset(files, how, folder=folder, workers=workers)
    return made


def write_files(folder):
    """Sixty pairs in three files, for as many processes."""
    folder.mkdir()
    rows = list(make_rows(60))
    for number in range(3):
        write_rows(folder / f"{number}.jsonl", rows[20 * number : 20 * number + 20])
    return folder


def test_processes_make_the_same_tokens_as_one(tmp_path):
    files = write_files(tmp_path / "pairs")
    one = dataset(files, tmp_path / "one")
    two = dataset(files, tmp_path / "two", workers=2)
    assert one[:] == two[:]
    assert len(one) == 60


def test_tokens_are_made_once(tmp_path, monkeypatch):
    write_rows(tmp_path / "a.jsonl", make_rows(10))
    before = dataset(tmp_path / "a.jsonl", tmp_path / "tokens")[:]
    monkeypatch.setattr(PairTokenizer, "tokenize", None)
    assert dataset(tmp_path / "a.jsonl", tmp_path / "tokens")[:] == before


def test_other_pairs_make_other_tokens(tmp_path):
    write_rows(tmp_path / "a.jsonl", make_rows(10))
    before = dataset(tmp_path / "a.jsonl", tmp_path / "tokens")
    write_rows(tmp_path / "a.jsonl", list(make_rows(11))[1:])
    assert dataset(tmp_path / "a.jsonl", tmp_path / "tokens")[:] != before[:]


def test_pairs_that_are_too_long_keep_their_number_of_tokens_only(tmp_path):
    write_rows(tmp_path / "a.jsonl", make_rows(9))
    tokens = np.array(dataset(tmp_path / "a.jsonl", tmp_path / "tokens")["tokens"])
    limit = int(np.median(tokens))
    cut = dataset(tmp_path / "a.jsonl", tmp_path / "tokens", max_tokens=limit)
    assert cut["tokens"][:] == tokens.tolist()
    assert [bool(ids) for ids in cut["input_ids"]] == (tokens <= limit).tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_wrong_with_a_file_is_told_by_whoever_reads_it(workers, tmp_path):
    files = write_files(tmp_path / "pairs")
    with (files / "1.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(UsageError, match=r"1\.jsonl .*prompt"):
        dataset(files, tmp_path / "tokens", workers=workers)


def answered(how, rows, tmp_path):
    """The trained text of every pair that is left."""
    files = [write_rows(tmp_path / "pairs.jsonl", rows)]
    return [
        TOKENIZER.decode(np.asarray(row["input_ids"])[row["trained"]])
        for row in how.rows(parts_of(files))
    ]


def test_answers_may_be_learnt_without_plans(tmp_path):
    rows = list(make_rows(9))
    for text, row in zip(answered(replace(HOW, plans=False), rows, tmp_path), rows, strict=True):
        whole = row["completion"][0]["content"]
        assert "<plan>" in whole
        assert text == whole.partition("</plan>\n")[2] + END


def test_reasoning_may_be_learnt_and_is_no_part_of_the_candidate(tmp_path):
    rows = list(make_rows(3))
    rows[0]["reasoning"] = "First fuse both calls.\n"
    wanted = [row["completion"][0]["content"] for row in rows]
    assert answered(HOW, rows, tmp_path) == [text + END for text in wanted]
    thought, *others = answered(replace(HOW, reasoning=True), rows, tmp_path)
    assert thought == f"<think>\nFirst fuse both calls.\n</think>\n{wanted[0]}{END}"
    assert others == [text + END for text in wanted[1:]]
    whole, bare = (read_answer(text, origin="test") for text in (thought, wanted[0]))
    assert whole.candidate == bare.candidate


def test_so_many_answers_to_a_program_may_be_learnt(tmp_path):
    rows = [row | {"id": f"part/{n // 3}/{n % 3}"} for n, row in enumerate(make_rows(12))]
    wanted = [row["completion"][0]["content"] + END for row in rows]
    assert answered(HOW, rows, tmp_path) == wanted
    assert answered(replace(HOW, answers=1), rows, tmp_path) == wanted[::3]
    assert answered(replace(HOW, answers=2), rows, tmp_path) == [
        text for n, text in enumerate(wanted) if n % 3 < 2
    ]


def test_what_is_made_of_pairs_has_a_name_of_its_own(tmp_path):
    files = [write_rows(tmp_path / "pairs.jsonl", make_rows(3))]
    changes = [{}, {"plans": False}, {"reasoning": True}, {"answers": 1}, {"max_tokens": 99}]
    ways = [replace(HOW, **change) for change in changes]
    assert len({how.digest(files) for how in ways}) == len(ways)
