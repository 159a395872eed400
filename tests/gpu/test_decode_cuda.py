"""Decoding on a GPU: captured steps write what plain steps write, and what transformers writes."""

import random
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch

from kernelwright.policy.decode import Decoder
from kernelwright.policy.embedded import fresh_model
from kernelwright.policy.endpoint import Message
from kernelwright.policy.local import LocalModel
from kernelwright.policy.policy import Sampling
from kernelwright.timing.clock import gpu_lock

NUM_TOKENS, STOP = 300, 7
LENGTHS = (1, 2, 40, 200, 255, 256, 300, 511) * 5


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = fresh_model(
        NUM_TOKENS, hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, max_length=1024
    )
    with torch.no_grad():
        for each in made.parameters():
            each.mul_(8.0 if each.ndim == 2 else 1.0)  # a random model with opinions
    return made.cuda().eval()


@pytest.fixture(scope="module")
def prompts():
    rng = random.Random(0)
    return [[rng.randrange(NUM_TOKENS) for _ in range(length)] for length in LENGTHS]


def decode(model, prompts, sampling, *, max_rows, captures=True):
    decoder = Decoder(model, stops=[STOP], max_rows=max_rows)
    if not captures:
        decoder._steps.can_capture = False
    written = decoder.decode(prompts, seeds=list(range(len(prompts))), sampling=sampling)
    assert bool(decoder._steps.captured) == captures
    return written


@pytest.mark.parametrize("max_rows", [5, 16, 64])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(max_tokens=90), Sampling(temperature=1.0, top_p=0.9, max_tokens=90)],
    ids=["greedy", "drawn"],
)
def test_captured_steps_write_what_plain_steps_write(model, prompts, sampling, max_rows):
    plain = decode(model, prompts, sampling, max_rows=max_rows, captures=False)
    assert decode(model, prompts, sampling, max_rows=max_rows) == plain


def test_greedy_rows_are_those_of_transformers(model, prompts):
    found = decode(model, prompts[:8], Sampling(max_tokens=40), max_rows=4)
    for prompt, written in zip(prompts, found, strict=False):
        ids = torch.tensor([prompt], device="cuda")
        expected = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=40,
            eos_token_id=STOP,
            pad_token_id=0,
        )[0, len(prompt) :].tolist()
        assert written.tokens + [STOP] * (not written.is_cut_off) == expected


def test_what_cannot_be_captured_runs_as_it_is_and_says_so(model, prompts):
    """The host looks at what the model computes, as mixtures of experts have it do."""

    def look(*args):
        args[-1].sum().item()

    sampling = Sampling(max_tokens=20)
    plain = decode(model, prompts, sampling, max_rows=16, captures=False)
    looking = model.model.norm.register_forward_hook(look)
    decoder = Decoder(model, stops=[STOP], max_rows=16)
    try:
        with pytest.warns(UserWarning, match="llama are not captured .* captur"):
            found = decoder.decode(prompts, seeds=list(range(len(prompts))), sampling=sampling)
    finally:
        looking.remove()
    assert found == plain
    assert not decoder._steps.captured
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.MemPool()  # whose end ends the process while PyTorch takes the capture for open
    torch.rand(1, device="cuda")  # which fails then


def test_one_long_row_needs_few_captures(model, prompts):
    decoder = Decoder(model, stops=[])
    [written] = decoder.decode(prompts[2:3], seeds=[0], sampling=Sampling(max_tokens=900))
    assert len(written.tokens) == 900
    assert len(decoder._steps.captured) <= 2  # 512 slots, then 1,024


def test_a_released_decoder_leaves_the_model_s_memory_alone_and_decodes_again(model, prompts):
    decoder = Decoder(model, stops=[STOP])
    seeds, sampling = list(range(len(prompts))), Sampling(temperature=1.0, max_tokens=90)
    found = decoder.decode(prompts, seeds=seeds, sampling=sampling)
    decoder.release()
    before = torch.cuda.memory_reserved()  # libraries keep what they work in
    assert decoder.decode(prompts, seeds=seeds, sampling=sampling) == found
    held = torch.cuda.memory_reserved()
    decoder.release()
    assert torch.cuda.memory_reserved() - before < (held - before) / 2


def test_captured_steps_see_weights_that_change_in_place(model, prompts):
    """As training does between two rounds of answers."""
    sampling = Sampling(max_tokens=20)
    decoder = Decoder(model, stops=[STOP])
    before = decoder.decode(prompts, seeds=[0] * len(prompts), sampling=sampling)
    kept = [each.detach().clone() for each in model.parameters()]
    try:
        with torch.no_grad():
            for each in model.parameters():
                each.add_(0.5 * torch.randn_like(each))
        changed = decoder.decode(prompts, seeds=[0] * len(prompts), sampling=sampling)
        assert changed != before
        assert changed == decode(model, prompts, sampling, max_rows=64)
    finally:
        with torch.no_grad():
            for each, value in zip(model.parameters(), kept, strict=True):
                each.copy_(value)


def test_nothing_is_written_while_another_takes_times():
    """Without that, steps of a model would lie between its timed calls."""
    policy = LocalModel.embedded()
    talk = [(Message("user", "Say nothing."),)]
    sampling = Sampling(max_tokens=64)
    policy.chat(talk, samples=1, sampling=sampling)  # what is captured once
    with ThreadPoolExecutor(1) as beside:
        with gpu_lock():
            written = beside.submit(policy.chat, talk, samples=1, sampling=sampling)
            assert not wait([written], timeout=2.0).done
        assert wait([written], timeout=60.0).done
