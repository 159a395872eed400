"""Language models as their users call them: caches come out, and go in again for the next token."""

import copy

import pytest
import torch
import torch.utils._pytree as pytree

from kernelwright.programs.capture import structures
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.reference import run

transformers = pytest.importorskip("transformers")
SIZES = {"num_hidden_layers": 2, "vocab_size": 99, "hidden_size": 32}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
IDS = torch.randint(0, 90, (1, 8), generator=torch.Generator().manual_seed(0))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **HEADS)).eval()


def mamba():
    return transformers.MambaForCausalLM(transformers.MambaConfig(**SIZES, state_size=4)).eval()


def mixtral():
    config = transformers.MixtralConfig(**SIZES, **HEADS, num_local_experts=4)
    return transformers.MixtralForCausalLM(config).eval()


def t5():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**sizes, vocab_size=99, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config).eval()


def lowered_like_eager(module, kwargs):
    """Result of the lowered module, after a comparison of results and of changed inputs."""
    ours, theirs = copy.deepcopy(kwargs), copy.deepcopy(kwargs)
    lowered = lower(module, (), copy.deepcopy(kwargs))
    with torch.no_grad():
        outputs = run(lowered.program, lowered.gather(module, (), ours))
        result, expected = lowered.rebuild(outputs, (), ours), module(**theirs)
    structures.register(expected)
    (a, ours_spec), (b, their_spec) = map(pytree.tree_flatten, ((result, ours), (expected, theirs)))
    assert ours_spec == their_spec
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("model", [llama, mamba, mixtral])
def test_a_prompt_and_the_next_token_are_lowered_as_called(model):
    module = model()
    first = lowered_like_eager(module, {"input_ids": IDS})
    name = "cache_params" if model is mamba else "past_key_values"
    lowered_like_eager(module, {"input_ids": IDS[:, :1], name: first[name]})


@pytest.mark.slow
def test_a_decoder_with_two_caches_is_lowered_as_called():
    module = t5()
    first = lowered_like_eager(module, {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]})
    step = {"decoder_input_ids": IDS[:, :1], "past_key_values": first.past_key_values}
    lowered_like_eager(module, step | {"encoder_outputs": (first.encoder_last_hidden_state,)})


@pytest.mark.slow
def test_a_cache_of_fixed_size_is_filled_in_place():
    module = llama()
    cache = transformers.StaticCache(config=module.config, max_cache_len=16)
    lowered_like_eager(module, {"input_ids": IDS, "past_key_values": cache})
    with torch.no_grad():
        module(input_ids=IDS, past_key_values=cache)
    keys = cache.layers[0].keys
    inputs = {"input_ids": IDS[:, :1], "past_key_values": cache}
    lowered = lower(module, (), inputs)
    lowered.rebuild(run(lowered.program, lowered.gather(module, (), inputs)), (), inputs)
    assert cache.layers[0].keys is keys
    assert int(cache.layers[0].cumulative_length) == 9
