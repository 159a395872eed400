"""Builds models by name, with random weights: `timm/NAME` and `transformers/TYPE`."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernelwright.bench.models.libraries import missing, prepare
from kernelwright.core.errors import UsageError

PREFILL, DECODE, BATCH = "prefill", "decode", "batch"
"""Phases: a decoder reads a prompt; a decoder writes one token after a prompt; several inputs at
once. Models of images have `BATCH` alone, also for a single image."""
DEFAULT = (
    "timm/resnet50",
    "timm/convnext_tiny",
    "timm/efficientnet_b0",
    "timm/vit_base_patch16_224",
    "timm/swin_tiny_patch4_window7_224",
    "timm/mobilenetv3_large_100",
    "timm/regnety_032",
    "timm/mixer_b16_224",
    "transformers/bert",
    "transformers/modernbert",
    "transformers/gpt2",
    "transformers/opt",
    "transformers/phi",
    "transformers/llama",
    "transformers/gemma2",
    "transformers/mamba",
)
"""The models of `eval models` if the user names none."""
SEED = 0
IMAGE_CASES = ((BATCH, 1), (BATCH, 8))
ENCODER_CASES = ((PREFILL, 1), (BATCH, 8))
DECODER_CASES = ((PREFILL, 1), (DECODE, 1), (BATCH, 8))
"""Phases with their batch sizes, by kind of model."""
NUM_TOKENS, SMALL_TOKENS, SMALL_SIDE = 512, 16, 64
"""Tokens of a prompt; for small models, tokens of a prompt and pixels along a side of an image."""
SMALL_SIZES: Mapping[str, int] = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""Sizes of a small language model, as most configurations of transformers name them."""


Inputs = Callable[[torch.nn.Module, str, int, torch.dtype], dict[str, Any]]
"""A function that draws the keyword arguments of a call, from the module, phase, batch size and
dtype."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A module in eval mode and the arguments of a call."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ZooModel:
    """A model of a library, not built yet.

    Args:
        name: the full name, as `model_named` reads it.
        cases: phases that the model has, with their batch sizes.
        build: makes the module in a dtype, with random weights, on the current device.
        inputs: draws the arguments of a call.
    """

    name: str
    cases: Sequence[tuple[str, int]]
    build: Callable[[torch.dtype], torch.nn.Module]
    inputs: Inputs

    def call(
        self, phase: str, batch: int, dtype: torch.dtype, device: torch.device | str
    ) -> ModelCall:
        """The module and the arguments of a call, on a device. The seed is fixed, so every process
        gets the same weights and arguments."""
        torch.manual_seed(SEED)
        with torch.device(device), torch.no_grad():
            # Tensors that come from NumPy do not heed the device around them.
            module = self.build(dtype).eval().to(device)
            return ModelCall(module, (), self.inputs(module, phase, batch, dtype))


def model_named(name: str, *, is_small: bool = False) -> ZooModel:
    """The model with a name.

    Args:
        name: "timm/MODEL", or "transformers/TYPE" with a model type such as "gpt2".
        is_small: small sizes in place of the library's own.

    Raises:
        UsageError: the library is not installed, or has no such model.
    """
    library, _, model = name.partition("/")
    if library not in _LIBRARIES or not model:
        names = " or ".join(f"{library}/NAME" for library in _LIBRARIES)
        raise UsageError(f"{name!r} names no model", remedy=f"give {names}")
    prepare()
    if why := missing([library]).get(library):
        remedy = f"install the library: pip install {library}"
        raise UsageError(f"{name}: {library} cannot be imported: {why}", remedy=remedy)
    return _LIBRARIES[library](model, is_small)


def _timm(model: str, is_small: bool) -> ZooModel:
    timm: Any = importlib.import_module("timm")
    if not timm.is_model(model):
        remedy = "choose one of timm.list_models()"
        raise UsageError(f"timm has no model {model!r}", remedy=remedy)

    def build(dtype: torch.dtype) -> torch.nn.Module:
        module: torch.nn.Module = timm.create_model(model, pretrained=False)
        return module.to(dtype)

    def inputs(module: Any, _phase: str, batch: int, dtype: torch.dtype) -> dict[str, Any]:
        channels, *sides = module.pretrained_cfg["input_size"]
        if is_small and not module.pretrained_cfg.get("fixed_input_size"):
            sides = [SMALL_SIDE, SMALL_SIDE]
        return {"x": torch.randn(batch, channels, *sides, dtype=dtype)}

    return ZooModel(name=f"timm/{model}", cases=IMAGE_CASES, build=build, inputs=inputs)


def _transformers(model: str, is_small: bool) -> ZooModel:
    transformers: Any = importlib.import_module("transformers")
    types: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    if model not in types.MODEL_MAPPING_NAMES:
        remedy = "give a model type, gpt2 for example"
        raise UsageError(f"transformers has no model type {model!r}", remedy=remedy)
    config = transformers.AutoConfig.for_model(model, **(SMALL_SIZES if is_small else {}))
    num_tokens = SMALL_TOKENS if is_small else NUM_TOKENS
    cases: Sequence[tuple[str, int]]
    inputs: Inputs
    is_masked = model in types.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if model in types.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        kind, cases, inputs = "AutoModelForImageClassification", IMAGE_CASES, _image
    elif config.is_encoder_decoder or not hasattr(config, "vocab_size"):
        remedy = "give a model that reads a text or an image"
        raise UsageError(f"transformers/{model} is a model of several inputs", remedy=remedy)
    elif model in types.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked:
        kind, cases = "AutoModelForCausalLM", DECODER_CASES
        inputs = partial(_text, num_tokens)
    else:
        kind, cases, inputs = "AutoModel", ENCODER_CASES, partial(_text, num_tokens)

    def build(dtype: torch.dtype) -> torch.nn.Module:
        module: torch.nn.Module = getattr(transformers, kind).from_config(config, dtype=dtype)
        return module

    return ZooModel(name=f"transformers/{model}", cases=cases, build=build, inputs=inputs)


def _image(module: Any, _phase: str, batch: int, dtype: torch.dtype) -> dict[str, Any]:
    config = module.config
    shape = (batch, config.num_channels, *[getattr(config, "image_size", 224)] * 2)
    return {"pixel_values": torch.randn(shape, dtype=dtype)}


def _text(
    num_tokens: int, module: Any, phase: str, batch: int, _dtype: torch.dtype
) -> dict[str, Any]:
    ids = torch.randint(0, module.config.vocab_size, (batch, num_tokens))
    if phase != DECODE:
        return {"input_ids": ids}
    return {"input_ids": ids[:, -1:], **_filled_cache(module, ids)}


def _filled_cache(module: Any, ids: torch.Tensor) -> dict[str, Any]:
    """The keyword argument of a cache that a prompt has filled. The cache has a fixed size, because
    compiled decoders use such caches."""
    from kernelwright.policy.slots import cache_keyword  # imports transformers

    static_cache: Any = importlib.import_module("transformers").StaticCache
    cache = static_cache(config=module.config, max_cache_len=2 * ids.shape[1])
    filled = {cache_keyword(module): cache}
    module(input_ids=ids, **filled)
    return filled


_LIBRARIES = {"timm": _timm, "transformers": _transformers}
