"""Whole models by their public definitions, with random weights: published sizes, fewer layers."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

Made = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
Inputs = Callable[[Any], dict[str, Any]]
"""From a configuration, the keyword arguments of a call."""
TOKENS, LAYERS, BATCH = 512, 4, 8


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the arguments of a call."""

    name: str
    make: Callable[[], Made]


def _timm(name: str, *, size: int = 224, batch: int = 32) -> Model:
    def make() -> Made:
        timm: Any = import_module("timm")
        return timm.create_model(name, pretrained=False), (torch.randn(batch, 3, size, size),), {}

    return Model(f"timm/{name}", make)


def _transformers(name: str, kind: str, inputs: Inputs, **sizes: Any) -> Model:
    def make() -> Made:
        model_class = getattr(import_module("transformers"), kind)
        config = model_class.config_class(**sizes)
        return model_class(config), (), inputs(config)

    return Model(f"transformers/{name}", make)


def _tokens(batch: int = BATCH, length: int = TOKENS) -> Inputs:
    def inputs(config: Any) -> dict[str, Any]:
        return {"input_ids": torch.randint(0, config.vocab_size, (batch, length))}

    return inputs


def _prefill(batch: int = BATCH, length: int = TOKENS) -> Inputs:
    return lambda config: {**_tokens(batch, length)(config), "use_cache": False}


def _decode(config: Any) -> dict[str, Any]:
    """One new token after `TOKENS`, beside a cache of fixed size."""
    cache = import_module("transformers").StaticCache(config=config, max_cache_len=2 * TOKENS)
    return {
        **_tokens(BATCH, 1)(config),
        "past_key_values": cache,
        "cache_position": torch.tensor([TOKENS]),
    }


_LLAMA = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": LAYERS,
    "vocab_size": 32000,
}
_QWEN = _LLAMA | {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
_MIXTRAL = _LLAMA | {"num_hidden_layers": 1, "num_local_experts": 8}


def _spectrogram(config: Any) -> dict[str, Any]:
    return {"input_features": torch.randn(BATCH, config.num_mel_bins, 3000)}


def _image_and_text(config: Any) -> dict[str, Any]:
    size = config.vision_config.image_size
    ids = torch.randint(0, config.text_config.vocab_size, (BATCH, 64))
    return {"pixel_values": torch.randn(BATCH, 3, size, size), "input_ids": ids}


MODELS = (
    _timm("resnet50"),
    _timm("convnext_tiny"),
    _timm("efficientnet_b0"),
    _timm("vit_base_patch16_224"),
    _timm("swin_tiny_patch4_window7_224"),
    _timm("mobilenetv3_large_100"),
    _timm("regnety_032"),
    _timm("mixer_b16_224"),
    _transformers("bert-base", "BertModel", _tokens()),
    _transformers("gpt2", "GPT2LMHeadModel", _prefill()),
    _transformers("llama prefill", "LlamaForCausalLM", _prefill(), **_LLAMA),
    _transformers("llama decode", "LlamaForCausalLM", _decode, **_LLAMA),
    _transformers("qwen2 prefill", "Qwen2ForCausalLM", _prefill(), **_QWEN),
    _transformers("qwen2 decode", "Qwen2ForCausalLM", _decode, **_QWEN),
    _transformers("mixtral block", "MixtralForCausalLM", _prefill(), **_MIXTRAL),
    _transformers("t5 encoder", "T5EncoderModel", _tokens(), num_layers=LAYERS),
    _transformers("whisper encoder", "WhisperForAudioClassification", _spectrogram),
    _transformers("mamba", "MambaForCausalLM", _prefill(), num_hidden_layers=LAYERS),
    _transformers("clip", "CLIPModel", _image_and_text),
    _transformers("gemma2 prefill", "Gemma2ForCausalLM", _prefill(), num_hidden_layers=LAYERS),
)
