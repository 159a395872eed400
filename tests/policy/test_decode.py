"""Decoding: what transformers writes, row by row, however rows are batched; draws are fair."""

import gc
import random
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from kernelwright.core.errors import UsageError
from kernelwright.policy import steps
from kernelwright.policy.decode import Decoder, slots_to_read
from kernelwright.policy.draw import draw, uniforms
from kernelwright.policy.policy import Sampling
from kernelwright.timing import stages
from kernelwright.timing.stages import stage

NUM_TOKENS, CONTEXT, STOP = 50, 256, 7
SIZES = {
    "vocab_size": NUM_TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
WINDOW = {"sliding_window": 16}
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "mistral": (MistralForCausalLM, MistralConfig, WINDOW),
    "qwen2": (
        Qwen2ForCausalLM,
        Qwen2Config,
        {**WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config, WINDOW),
}
LENGTHS = (1, 2, 17, 40, 64, 65, 90)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny products are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(name="llama"):
    torch.manual_seed(1)
    model, config, more = MODELS[name]
    # Large weights: the random model has opinions, and ties are out of the question.
    return model(config(**SIZES, **more, initializer_range=0.4)).eval()


def prompts_of(lengths, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(NUM_TOKENS) for _ in range(length)] for length in lengths]


def decode(model, prompts, sampling, seeds=None, **options):
    decoder = Decoder(model, stops=[STOP], **options)
    seeds = range(len(prompts)) if seeds is None else seeds
    return decoder.decode(prompts, seeds=list(seeds), sampling=sampling)


def transformers_writes(model, prompt, max_tokens):
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones((1, len(prompt))),
        do_sample=False,
        max_new_tokens=max_tokens,
        eos_token_id=STOP,
        pad_token_id=0,
    )
    return found[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_greedy_rows_are_those_of_transformers(name):
    model, prompts = tiny(name), prompts_of(LENGTHS)
    found = decode(model, prompts, Sampling(max_tokens=12), max_rows=4)
    for prompt, written in zip(prompts, found, strict=True):
        end = [] if written.is_cut_off else [STOP]
        assert written.tokens + end == transformers_writes(model, prompt, 12)


def test_rows_say_whether_they_ended():
    """Of a row that is cut off, what is there is what the longer row begins with."""
    model, prompts = tiny(), prompts_of(LENGTHS)
    short, long = (decode(model, prompts, Sampling(max_tokens=n)) for n in (6, 60))
    assert {written.is_cut_off for written in short} == {True, False}
    for few, many in zip(short, long, strict=True):
        assert few == many if not few.is_cut_off else few.tokens == many.tokens[:6]


def test_the_model_attends_as_before_afterwards():
    model = tiny()
    before = model.config._attn_implementation
    decode(model, prompts_of([5]), Sampling(max_tokens=2))
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("max_rows", [3, 32])
def test_a_row_does_not_depend_on_its_batch(max_rows):
    model, prompts = tiny(), prompts_of(LENGTHS)
    sampling = Sampling(temperature=1.0, top_p=0.9, max_tokens=16)
    alone = [decode(model, [p], sampling, [i])[0] for i, p in enumerate(prompts)]
    assert decode(model, prompts, sampling, max_rows=max_rows) == alone


def test_seeds_make_rows_differ():
    (prompt,) = prompts_of([5])
    found = decode(tiny(), [prompt] * 8, Sampling(temperature=2.0, max_tokens=20))
    assert len({tuple(written.tokens) for written in found}) == 8


def test_one_decoder_serves_calls_of_all_sizes():
    model = tiny()
    decoder = Decoder(model, stops=[STOP], max_rows=8)
    for lengths in ([3], LENGTHS, [90, 2], [1]):
        prompts = prompts_of(lengths)
        found = decoder.decode(prompts, seeds=[0] * len(prompts), sampling=Sampling(max_tokens=20))
        assert found == decode(model, prompts, Sampling(max_tokens=20))


def test_rows_are_no_more_than_memory_has_room_for(monkeypatch):
    """Also where steps are captured, for certain numbers of rows; and memory is kept."""
    monkeypatch.setattr(Decoder, "_affordable", lambda *_: 3)
    model, prompts = tiny(), prompts_of(LENGTHS)
    decoder = Decoder(model, stops=[STOP])
    decoder._on_gpu = True
    caches = []
    for _ in range(2):
        found = decoder.decode(prompts, seeds=[0] * 7, sampling=Sampling(max_tokens=5))
        assert found == decode(model, prompts, Sampling(max_tokens=5))
        caches.append(decoder._cache)
    assert caches[0] is caches[1]
    assert caches[0].rows == 3


@given(slots=st.integers(1, 9000), most=st.integers(4, 36).map(lambda n: 256 * n))
def test_few_rows_read_few_different_numbers_of_slots_and_no_more_than_they_may_need(slots, most):
    slots = min(slots, most)
    many = slots_to_read(slots, most=most, step=256, is_few=False)
    few = slots_to_read(slots, most=most, step=256, is_few=True)
    assert slots <= many <= few <= max(most, many)
    assert few in (512, 1024, 2048, 4096, 8192, most)


def test_what_is_not_written_in_time_is_cut_off_or_left_out():
    prompts = prompts_of([5] * 5)
    decoder = Decoder(tiny(), stops=[], max_rows=3)
    found = decoder.decode(prompts, seeds=[0] * 5, sampling=Sampling(for_s=0.0))
    assert sorted(len(written.tokens) for written in found) == [0, 0, 1, 1, 1]
    assert all(written.is_cut_off for written in found)
    again = decoder.decode(prompts[:1], seeds=[0], sampling=Sampling(max_tokens=9))
    assert again == decode(tiny(), prompts[:1], Sampling(max_tokens=9))


def test_rows_are_written_in_turns_in_which_others_wait_and_which_take_no_time_between(monkeypatch):
    """What follows a turn, such as a reader's work, is none; waiting for one costs no seconds."""
    open_turns, num_turns, clock = [], 0, SimpleNamespace(now_s=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now_s, perf_counter=lambda: clock.now_s)
    monkeypatch.setattr(stages, "time", fake)

    @contextmanager
    def turn():
        nonlocal num_turns
        with stage("wait for others", is_waiting=True):
            clock.now_s += 10.0
        open_turns.append(True)
        num_turns += 1
        yield
        open_turns.pop()

    prompts, model = prompts_of([5] * 4), tiny()
    sampling = Sampling(max_tokens=24, for_s=3.0)
    decoder = Decoder(model, stops=[STOP], turn=turn)
    written = {}
    for number, row in decoder.stream(prompts, seeds=[0] * 4, sampling=sampling):
        assert not open_turns
        written[number] = row
    alone = Decoder(model, stops=[STOP]).decode(prompts, seeds=[0] * 4, sampling=sampling)
    assert [written[number] for number in range(4)] == alone
    assert num_turns >= max(len(row.tokens) for row in alone)
    late = Sampling(max_tokens=24, for_s=0.8 * 0.05 * num_turns)
    assert decoder.decode(prompts, seeds=[0] * 4, sampling=late) == alone


def test_rows_end_with_the_context():
    prompts = prompts_of([CONTEXT - 3, CONTEXT, CONTEXT + 9])
    found = Decoder(tiny(), stops=[]).decode(prompts, seeds=[0, 0, 0], sampling=Sampling())
    assert [len(written.tokens) for written in found] == [3, 0, 0]
    assert all(written.is_cut_off for written in found)


def test_a_released_decoder_holds_no_keys_and_values_and_decodes_again():
    """They are gone at once, not when Python looks for cycles."""
    prompts, sampling = prompts_of(LENGTHS), Sampling(temperature=1.0, max_tokens=20)
    decoder = Decoder(tiny(), stops=[STOP])
    seeds = list(range(len(prompts)))
    before = decoder.decode(prompts, seeds=seeds, sampling=sampling)
    held = [weakref.ref(each) for layer in decoder._cache.slots for each in (layer, layer.keys)]
    gc.disable()
    try:
        decoder.release()
        assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()
    assert decoder.decode(prompts, seeds=seeds, sampling=sampling) == before


def capture_that_asks_the_host(run, pool):
    """As PyTorch tells: what ends the capture comes last, and says least."""
    try:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")
    finally:
        raise RuntimeError("operation failed due to a previous error during capture")


def capture_without_memory(run, pool):
    raise RuntimeError("CUDA out of memory")


def decode_with_capture(monkeypatch, captured):
    monkeypatch.setattr(steps, "_captured", captured)
    decoder = Decoder(tiny(), stops=[STOP])
    decoder._steps.can_capture = True
    prompts = prompts_of(LENGTHS)
    return decoder.decode(prompts, seeds=[0] * len(prompts), sampling=Sampling(max_tokens=20))


def test_steps_that_cannot_be_captured_run_as_they_are_and_say_so_once(monkeypatch):
    message = "llama .* stream is capturing$"
    with pytest.warns(UserWarning, match=message) as told:
        found = decode_with_capture(monkeypatch, capture_that_asks_the_host)
    assert sum(re.search(message, str(warning.message)) is not None for warning in told) == 1
    assert found == decode(tiny(), prompts_of(LENGTHS), Sampling(max_tokens=20))


def test_other_failures_while_a_step_is_captured_are_not_hidden(monkeypatch):
    with pytest.raises(RuntimeError, match="out of memory"):
        decode_with_capture(monkeypatch, capture_without_memory)


def test_layers_that_slots_cannot_serve_are_refused():
    model = tiny()
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(UsageError, match="linear_attention"):
        Decoder(model, stops=[])


def chi_square(counts, shares):
    expected = shares * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_sampled_tokens_have_the_model_s_probabilities():
    """A first token, 2,000 seeds: chi-square over the 10 likeliest tokens and the rest."""
    model, (prompt,) = tiny(), prompts_of([6])
    temperature, num_rows = 3.0, 2000
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0, -1]
    share = torch.softmax(logits / temperature, dim=-1)
    found = Decoder(model, stops=[], max_rows=500).decode(
        [prompt] * num_rows,
        seeds=list(range(num_rows)),
        sampling=Sampling(temperature=temperature, max_tokens=1),
    )
    counts = torch.bincount(torch.tensor([w.tokens[0] for w in found]), minlength=NUM_TOKENS)
    top = share.argsort(descending=True)[:10]
    merged = [
        torch.cat([each[top], (each.sum() - each[top].sum())[None]]) for each in (counts, share)
    ]
    assert chi_square(*merged) < 29.6  # 10 degrees of freedom, 0.1 %


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 1.0), st.floats(0.3, 3.0))
def test_nothing_outside_the_nucleus_is_drawn(seed, top_p, temperature):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn((64, 20), generator=generator)
    share = torch.softmax(logits / temperature, dim=-1)
    ordered, order = share.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    at = torch.linspace(0, 1 - 2**-23, 64)
    found = draw(logits, at, torch.tensor(temperature), torch.tensor(top_p))
    rank = (order == found[:, None]).int().argmax(-1)
    assert bool((before.gather(1, rank[:, None]) < top_p + 1e-5).all())
    assert rank[0] == 0  # a number of 0 is the likeliest token
    whole = draw(logits, at, torch.tensor(temperature), None)
    assert bool(((whole >= 0) & (whole < 20)).all())


def test_numbers_are_uniform_and_below_one():
    drawn = uniforms(3, 100_000)
    assert float(drawn.min()) >= 0.0
    assert float(drawn.max()) < 1.0
    counts = torch.histc(drawn, bins=20, min=0, max=1)
    assert chi_square(counts, torch.full((20,), 0.05)) < 43.8  # 19 degrees of freedom, 0.1 %
    assert not torch.equal(drawn[:9], uniforms(4, 9))
