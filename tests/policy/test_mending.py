"""Answers that are continued anew from a fault: the rest of them stays, token by token."""

import pytest
from test_faults import PROGRAM

from kernelwright.policy.answer import read_answer
from kernelwright.policy.decode import WrittenTokens
from kernelwright.policy.mending import VERSIONS, Mender
from kernelwright.policy.policy import Sampling
from kernelwright.policy.tokenizer import train_tokenizer

CODE = (
    "```python\nimport torch\n\n\ndef fused_operator(x0, x1):\n"
    "    t0 = x0 + 1\n    t1 = {} + 1\n    return [t1]\n```\n"
)
RIGHT, FAULTY, OTHER = CODE.format("t0"), CODE.format("t7"), CODE.format("t8")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([RIGHT, FAULTY, OTHER], vocabulary=400, max_length=512)


class FakeDecoder:
    """Continues each prompt as a text goes on that begins alike. Each call takes the next text, or
    the next list with a text for each prompt. A call without prompts takes none."""

    def __init__(self, tokenizer, texts):
        self.tokenizer, self.texts, self.asked = tokenizer, list(texts), []

    def decode(self, prompts, *, seeds, sampling):
        self.asked.append((prompts, seeds, sampling))
        texts = self.texts.pop(0) if prompts else []
        if isinstance(texts, str):
            texts = [texts] * len(prompts)
        written = []
        for prompt, text in zip(prompts, texts, strict=True):
            kept = self.tokenizer.decode(prompt[1:])
            assert text.startswith(kept)
            written.append(WrittenTokens(self.tokenizer(text[len(kept) :])["input_ids"], end=0))
        return written


def mended(tokenizer, text, continuations, mends=2, for_s=None):
    decoder = FakeDecoder(tokenizer, continuations)
    answer = WrittenTokens(tokenizer(text)["input_ids"], end=0)
    (found,) = Mender(decoder, tokenizer).mend(
        [answer], [[1]], [PROGRAM], seeds=[5], sampling=Sampling(mends=mends, for_s=for_s)
    )
    return tokenizer.decode(found.tokens), decoder.asked


def test_an_answer_goes_on_from_a_new_version_of_its_faulty_line(tokenizer):
    text, (drawn, rest) = mended(tokenizer, FAULTY, [RIGHT, RIGHT])
    assert text == RIGHT
    prompts, seeds, sampling = drawn
    kept = tokenizer.decode(prompts[0][1:])
    assert kept.rstrip() == FAULTY.partition("    t1")[0].rstrip(), "up to the line with the fault"
    assert sampling.temperature == 1.0, "the likeliest version is the fault"
    assert len(set(seeds)) == len(prompts) == VERSIONS
    prompts, seeds, sampling = rest
    (prompt,) = prompts
    assert tokenizer.decode(prompt[1:]).rstrip() == RIGHT.partition("    return")[0].rstrip()
    assert sampling.temperature == 0.0, "the rest is as likely as the answer was"
    assert seeds != [5]


def test_the_most_frequent_version_is_taken(tokenizer):
    texts = [OTHER, *[RIGHT] * (VERSIONS - 1)]
    text, _ = mended(tokenizer, FAULTY, [texts, RIGHT])
    assert text == RIGHT


def test_an_answer_is_mended_as_often_as_was_asked(tokenizer):
    text, asked = mended(tokenizer, FAULTY, [OTHER, OTHER, RIGHT, RIGHT])
    assert text == RIGHT
    assert len(asked) == 4
    assert asked[0][1] != asked[2][1], "with other draws"
    text, asked = mended(tokenizer, FAULTY, [], mends=0)
    assert (text, asked) == (FAULTY, [])


def test_an_answer_stays_if_all_versions_have_the_fault(tokenizer):
    text, asked = mended(tokenizer, FAULTY, [FAULTY, FAULTY])
    assert text == FAULTY
    assert read_answer(text, origin="test").candidate is not None
    assert [len(prompts) for prompts, _, _ in asked] == [VERSIONS, 0, VERSIONS, 0]


def test_what_has_no_fault_is_left_alone(tokenizer):
    for text in (RIGHT, "no code at all"):
        assert mended(tokenizer, text, []) == (text, [])


def test_mending_takes_no_time_that_is_not_left(tokenizer):
    assert mended(tokenizer, FAULTY, [], for_s=0.0) == (FAULTY, [])
    text, ((_, _, first), (_, _, second)) = mended(tokenizer, FAULTY, [RIGHT, RIGHT], for_s=60.0)
    assert text == RIGHT
    assert 0 < second.for_s <= first.for_s <= 60.0


PLAN = (
    "<plan>\nPlan of first_kernel\n  fuses: abs\n  reads: x0\n  makes: t9\n  loop: pointwise\n"
    "Plan of add_kernel\n  fuses: add\n  reads: {}\n  makes: t0\n  loop: pointwise\n</plan>\n"
)


def test_a_plan_that_lacks_a_kernel_gets_a_version_without_the_gap(tokenizer):
    right, faulty = PLAN.format("x0, x1") + RIGHT, PLAN.format("x0, t7") + FAULTY
    versions = [faulty] * (VERSIONS - 1) + [right]
    text, ((prompts, _, _), ((begun,), _, _)) = mended(tokenizer, faulty, [versions, right])
    assert text == right, "the version that mends the plan, though another is more frequent"
    kept = tokenizer.decode(prompts[0][1:])
    assert kept.rstrip() == PLAN.partition("Plan of add_kernel")[0].rstrip()
    assert tokenizer.decode(begun[1:]).rstrip() == right.partition("</plan>")[0].rstrip()


def test_a_plan_with_a_gap_stays_where_the_code_shows_no_fault(tokenizer):
    text = PLAN.format("x0, t7") + RIGHT
    assert mended(tokenizer, text, []) == (text, [])
