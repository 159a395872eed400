"""The embedded model, a small causal language model in Hugging Face's layout: created, saved and
loaded.

The architecture is Llama's: tied embeddings, no biases, and grouped queries. With grouped queries
the cache is small, so thousands of rows can be written at once.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.core.errors import UsageError
from kernelwright.policy.names import EMBEDDED
from kernelwright.policy.tokenizer import ASSISTANT, END, MARKS, PAD, USER, end_tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS = Path(__file__).parent / "weights"
"""The folder of the weights that ship with the package."""
NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")
SPARE_TOKENS = 1024
"""A model may have this number of embeddings more than its tokenizer has tokens, because some
models pad the number of embeddings."""


def fresh_model(
    vocabulary: int,
    *,
    hidden: int,
    layers: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    max_length: int,
) -> "PreTrainedModel":
    """A model with random weights (torch's global generator draws them), in float32.

    Args:
        vocabulary: number of tokens of the tokenizer.
        hidden: width of the model, which is divided among the heads.
        kv_heads: number of heads of keys and values; a divisor of `heads`.
        intermediate: width inside the feed-forward layers.
        max_length: the most tokens of request and answer together.

    Raises:
        ValueError: widths and heads do not fit together.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    if hidden % heads or heads % kv_heads or hidden // heads % 2:
        raise ValueError(f"{hidden} wide, {heads} heads, {kv_heads} of keys: no even division")
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


def save_model(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    path: Path | str,
    weights: "Mapping[str, torch.Tensor] | None" = None,
) -> None:
    """Write configuration, tokenizer with chat template, and weights as bfloat16 safetensors.

    The model itself keeps its precision. The host needs memory for the written copy.

    Args:
        weights: the whole weights, if the model holds only a shard of them.

    Raises:
        ValueError: the tokenizer is not the model's.
    """
    import torch

    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(f"{len(tokenizer)} tokens for {model.config.vocab_size} embeddings")
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
    if len(ends := end_tokens(tokenizer)) > 1:
        model.generation_config.eos_token_id = ends
    dtype = model.config.dtype
    model.save_pretrained(path, state_dict=_narrow(model, weights or model.state_dict()))
    try:  # the file is to say what the weights in it are, not what the model is
        model.config.dtype = torch.bfloat16
        model.config.save_pretrained(path)
    finally:
        model.config.dtype = dtype
    tokenizer.save_pretrained(path)


def _narrow(
    model: "PreTrainedModel", weights: "Mapping[str, torch.Tensor]"
) -> "dict[str, torch.Tensor]":
    """Copy weights to the host in bfloat16. Tensors that share memory in the model share it here,
    so that `save_pretrained` writes tied weights once."""
    import torch

    by_memory: dict[tuple[int, int, torch.Size], torch.Tensor] = {}
    narrowed = {}
    for name, value in weights.items():
        place = (value.untyped_storage().data_ptr(), int(value.storage_offset()), value.shape)
        if place not in by_memory:
            dtype = torch.bfloat16 if value.is_floating_point() else value.dtype
            by_memory[place] = value.to("cpu", dtype)
        narrowed[name] = by_memory[place]
    if model.config.tie_word_embeddings:
        for name, source in model.all_tied_weights_keys.items():  # put together, they are copies
            narrowed[name] = narrowed[source]
    return narrowed


def folder_of(name: str) -> Path:
    """The folder of a model that a recipe names: "embedded" ships with the package."""
    return WEIGHTS if name == EMBEDDED else Path(name)


def load_model(
    path: Path | str, device: str, dtype: "torch.dtype | None" = None
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Load a causal language model in Hugging Face's layout for inference, with its tokenizer.

    Args:
        device: "cpu" or "cuda".
        dtype: of the weights; None: as they were saved.

    Raises:
        UsageError: a file is missing or broken, or the parts do not belong together.
    """
    folder = Path(path)
    _check_files(folder)
    model, tokenizer = _read(folder, dtype)
    rows = model.get_input_embeddings().weight.shape[0]
    if not len(tokenizer) <= rows <= len(tokenizer) + SPARE_TOKENS:
        raise UsageError(
            f"the tokenizer has {len(tokenizer)} tokens, the model {rows}",
            file=str(folder / "tokenizer.json"),
            remedy="put the tokenizer there that the model was trained with",
        )
    return model.to(device).eval(), tokenizer


def load_embedded(
    device: str, dtype: "torch.dtype | None" = None, path: Path = WEIGHTS
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """As `load_model`, for a model that was trained on our form of answers (`policy.answer`).

    Raises:
        UsageError: the weights are missing, or as `load_model`.
    """
    if not (path / "config.json").exists():
        raise UsageError(
            "this version of kernelwright comes without weights of the embedded model",
            file=str(path),
            remedy="choose another policy: teacher, hf:PATH or openai:URL#model",
        )
    model, tokenizer = load_model(path, device, dtype)
    wanted = (PAD, END, USER, ASSISTANT, *MARKS)
    if missing := [mark for mark in wanted if mark not in tokenizer.get_vocab()]:
        raise UsageError(
            f"the tokenizer has no tokens for {' '.join(missing)}",
            file=str(path / "tokenizer.json"),
            remedy="put the tokenizer there that the model was trained with",
        )
    return model, tokenizer


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError("not a folder", file=str(folder), remedy="name the folder of a model")
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise UsageError(
            f"no {', '.join(missing)}",
            file=str(folder),
            remedy="save model and tokenizer there with save_pretrained",
        )


def _read(folder: Path, dtype: "torch.dtype | None") -> "tuple[Any, PreTrainedTokenizerBase]":
    """Read the model and the tokenizer of a folder.

    Raises:
        UsageError: a file is broken, or a weight is missing or of another size. Without this check
            the library would put random numbers in place of a missing weight.
    """
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    load: Any = AutoModelForCausalLM.from_pretrained
    try:
        # As its file says: AutoTokenizer puts the architecture's own in place of some.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        model, report = load(
            folder,
            dtype=dtype or "auto",
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:  # the library raises whatever its parsers raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"cannot be read: {first}",
            file=str(_broken_file(folder)),
            remedy="copy it again, or save it again",
        ) from error
    if wrong := sorted(
        {*report["missing_keys"], *(mismatch[0] for mismatch in report["mismatched_keys"])}
    ):
        raise UsageError(
            f"{len(wrong)} weights are missing or of other sizes, {wrong[0]} for one",
            file=str(folder),
            remedy="config.json and the weights are not of one model: copy both from one place",
        )
    return model, tokenizer


def _broken_file(folder: Path) -> Path:
    """The first JSON or safetensors file that cannot be read, or the folder if all can."""
    from safetensors import SafetensorError, safe_open

    for path in (*sorted(folder.glob("*.json")), *sorted(folder.glob("*.safetensors"))):
        try:
            if path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
            else:
                with safe_open(path, framework="pt"):
                    pass
        except (SafetensorError, OSError, ValueError):
            return path
    return folder
