"""Models of transformers: language, vision, audio, several of these, and time series."""

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from kernelwright.bench.models.zoo import SMALL_SIZES
from tools.architectures.architecture import BATCH, Architecture, Draw, Example, drawn
from tools.architectures.language import DECODERS, ENCODER_DECODERS, ENCODERS, Options
from tools.architectures.perception import PERCEPTION

VOCABULARY, LENGTH = 99, 16
IDS = {"input_ids": Draw((BATCH, LENGTH), VOCABULARY)}
PAIR = IDS | {"decoder_input_ids": Draw((BATCH, 5), VOCABULARY)}

SMALL: Options = dict(SMALL_SIZES)
"""Sizes of a language model."""
SMALL_PAIR: Options = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "d_ff": 128,
    "d_kv": 16,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
"""Sizes of an encoder with a decoder."""


def architectures() -> Iterator[Architecture]:
    """Every model of the tables; a decoder with a cache of its past comes a second time as the
    step that decodes one token."""
    for family, models in DECODERS.items():
        for name, (kind, options, has_step) in models.items():
            full = f"transformers/{name}"
            yield Architecture(full, family, partial(_model, kind, SMALL | options, IDS))
            if has_step:
                step = partial(_decode_step, kind, SMALL | options)
                yield Architecture(f"{full} decode", f"{family}, decode step", step)
    for name, (kind, options) in ENCODERS.items():
        build = partial(_model, kind, SMALL | options, IDS)
        yield Architecture(f"transformers/{name}", "encoder", build)
    for name, (kind, options) in ENCODER_DECODERS.items():
        build = partial(_model, kind, SMALL_PAIR | options, PAIR)
        yield Architecture(f"transformers/{name}", "encoder-decoder", build)
    for family, others in PERCEPTION.items():
        for name, (kind, options, inputs) in others.items():
            build = partial(_model, kind, options, inputs)
            yield Architecture(f"transformers/{name}", family, build)


def _model(kind: str, options: Options, inputs: dict[str, Any]) -> Example:
    """The class with a small configuration, called as its documentation calls it."""
    torch.manual_seed(0)
    model_class = getattr(importlib.import_module("transformers"), kind)
    settings = {name: value for name, value in options.items() if value is not ...}
    module = model_class(model_class.config_class(**settings)).eval()
    return Example(module, (), drawn(inputs))


def _decode_step(kind: str, options: Options) -> Example:
    """One more token after a prompt whose keys and values are in the cache."""
    prompt = _model(kind, options, IDS)
    with torch.no_grad():
        cache = prompt.module(**prompt.kwargs).past_key_values
    token = drawn(Draw((BATCH, 1), VOCABULARY))
    return Example(prompt.module, (), {"input_ids": token, "past_key_values": cache})
