"""Denoisers and autoencoders of diffusers."""

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from tools.architectures.architecture import BATCH, Architecture, Draw, Example, drawn

_BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
_DOWN = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
_UP = {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
_LATENT = Draw((BATCH, 4, 16, 16))
_TEXT = Draw((BATCH, 7, 32))
_TIME = Draw((BATCH,), 999)
_VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
} | _BLOCKS
_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}

MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "unet2d": (
        "diffusion UNet",
        "UNet2DModel",
        {"sample_size": 16, "in_channels": 4, "out_channels": 4}
        | {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
        | {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
        | _BLOCKS,
        {"sample": _LATENT, "timestep": _TIME},
    ),
    "unet2d_condition": (
        "diffusion UNet",
        "UNet2DConditionModel",
        {"sample_size": 16, "cross_attention_dim": 32, "attention_head_dim": 4}
        | _BLOCKS
        | _DOWN
        | _UP,
        {"sample": _LATENT, "timestep": _TIME, "encoder_hidden_states": _TEXT},
    ),
    "controlnet": (
        "diffusion UNet",
        "ControlNetModel",
        {"cross_attention_dim": 32, "attention_head_dim": 4, "layers_per_block": 1}
        | {"block_out_channels": (32, 64), "norm_num_groups": 8}
        | {"conditioning_embedding_out_channels": (16, 32)}
        | _DOWN,
        {"sample": _LATENT, "timestep": _TIME, "encoder_hidden_states": _TEXT}
        | {"controlnet_cond": Draw((BATCH, 3, 32, 32))},
    ),
    "unet1d": (
        "diffusion UNet",
        "UNet1DModel",
        {"sample_size": 64, "in_channels": 2, "out_channels": 2, "extra_in_channels": 64}
        | {"block_out_channels": (32, 32, 64)},
        {"sample": Draw((BATCH, 2, 64)), "timestep": _TIME},
    ),
    "dit": (
        "diffusion transformer",
        "DiTTransformer2DModel",
        _HEADS | {"in_channels": 4, "sample_size": 16, "num_embeds_ada_norm": 1000},
        {"hidden_states": _LATENT, "timestep": _TIME, "class_labels": Draw((BATCH,), 999)},
    ),
    "pixart": (
        "diffusion transformer",
        "PixArtTransformer2DModel",
        _HEADS
        | {"in_channels": 4, "out_channels": 8, "sample_size": 16, "cross_attention_dim": 32}
        | {"caption_channels": 32, "use_additional_conditions": False},
        {"hidden_states": _LATENT, "encoder_hidden_states": _TEXT, "timestep": _TIME}
        | {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
    ),
    "sd3": (
        "diffusion transformer",
        "SD3Transformer2DModel",
        _HEADS
        | {"sample_size": 16, "patch_size": 2, "in_channels": 4, "out_channels": 4}
        | {"joint_attention_dim": 32, "caption_projection_dim": 32, "pooled_projection_dim": 32}
        | {"pos_embed_max_size": 16},
        {"hidden_states": _LATENT, "encoder_hidden_states": _TEXT, "timestep": _TIME}
        | {"pooled_projections": Draw((BATCH, 32))},
    ),
    "flux": (
        "diffusion transformer",
        "FluxTransformer2DModel",
        _HEADS
        | {"patch_size": 1, "in_channels": 16, "num_single_layers": 2, "joint_attention_dim": 32}
        | {"pooled_projection_dim": 32, "axes_dims_rope": (4, 4, 8)},
        {"hidden_states": Draw((BATCH, 16, 16)), "encoder_hidden_states": _TEXT}
        | {"pooled_projections": Draw((BATCH, 32)), "timestep": Draw((BATCH,))}
        | {"img_ids": Draw((16, 3)), "txt_ids": Draw((7, 3))},
    ),
    "hunyuan_dit": (
        "diffusion transformer",
        "HunyuanDiT2DModel",
        {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "sample_size": 16}
        | {"in_channels": 4, "patch_size": 2, "hidden_size": 32, "cross_attention_dim": 32}
        | {"cross_attention_dim_t5": 32, "pooled_projection_dim": 16, "text_len": 4}
        | {"text_len_t5": 4, "activation_fn": "gelu-approximate"},
        {"hidden_states": _LATENT, "timestep": Draw((BATCH,)), "style": Draw((BATCH,), 1)}
        | {"encoder_hidden_states": Draw((BATCH, 4, 32)), "image_meta_size": Draw((BATCH, 6))}
        | {"encoder_hidden_states_t5": Draw((BATCH, 4, 32)), "return_dict": False}
        | {
            "text_embedding_mask": Draw((BATCH, 4), 2),
            "text_embedding_mask_t5": Draw((BATCH, 4), 2),
        }
        | {"image_rotary_emb": [Draw((64, 16)), Draw((64, 16))]},
    ),
    "cogvideox": (
        "diffusion transformer",
        "CogVideoXTransformer3DModel",
        {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "in_channels": 4}
        | {"out_channels": 4, "text_embed_dim": 32, "time_embed_dim": 8, "sample_width": 8}
        | {"sample_height": 8, "sample_frames": 5, "max_text_seq_length": 7},
        {"hidden_states": Draw((1, 2, 4, 8, 8)), "encoder_hidden_states": Draw((1, 7, 32))}
        | {"timestep": Draw((1,), 999)},
    ),
    "sana": (
        "diffusion transformer",
        "SanaTransformer2DModel",
        _HEADS
        | {"in_channels": 4, "out_channels": 4, "num_cross_attention_heads": 2, "sample_size": 16}
        | {"cross_attention_head_dim": 16, "cross_attention_dim": 32, "caption_channels": 32},
        {"hidden_states": _LATENT, "encoder_hidden_states": _TEXT, "timestep": _TIME},
    ),
    "ltx": (
        "diffusion transformer",
        "LTXVideoTransformer3DModel",
        _HEADS
        | {"in_channels": 8, "out_channels": 8, "cross_attention_dim": 32, "caption_channels": 32},
        {"hidden_states": Draw((1, 2 * 4 * 4, 8)), "encoder_hidden_states": Draw((1, 7, 32))}
        | {"timestep": Draw((1,), 999), "encoder_attention_mask": Draw((1, 7), 2)}
        | {"num_frames": 2, "height": 4, "width": 4},
    ),
    "prior": (
        "diffusion transformer",
        "PriorTransformer",
        _HEADS | {"embedding_dim": 32, "num_embeddings": 7, "additional_embeddings": 4},
        {"hidden_states": Draw((BATCH, 32)), "timestep": _TIME}
        | {"proj_embedding": Draw((BATCH, 32)), "encoder_hidden_states": _TEXT},
    ),
    "autoencoder_kl": ("autoencoder", "AutoencoderKL", _VAE, {"sample": Draw((1, 3, 32, 32))}),
    "autoencoder_tiny": (
        "autoencoder",
        "AutoencoderTiny",
        {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16)}
        | {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)},
        {"sample": Draw((1, 3, 32, 32))},
    ),
    "vq_model": ("autoencoder", "VQModel", _VAE, {"sample": Draw((1, 3, 32, 32))}),
    "autoencoder_dc": (
        "autoencoder",
        "AutoencoderDC",
        {"encoder_block_types": ("ResBlock", "EfficientViTBlock")}
        | {"decoder_block_types": ("ResBlock", "EfficientViTBlock"), "latent_channels": 4}
        | {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16)}
        | {"encoder_layers_per_block": (1, 1), "decoder_layers_per_block": (1, 1)}
        | {"encoder_qkv_multiscales": ((), (5,)), "decoder_qkv_multiscales": ((), (5,))}
        | {"attention_head_dim": 8, "downsample_block_type": "conv"}
        | {"upsample_block_type": "interpolate"},
        {"sample": Draw((1, 3, 32, 32))},
    ),
}
"""Name -> (family, class of diffusers, its options, inputs by name)."""


def architectures() -> Iterator[Architecture]:
    """Every model of the table."""
    for name, (family, kind, options, inputs) in MODELS.items():
        yield Architecture(f"diffusers/{name}", family, partial(_build, kind, options, inputs))


def _build(kind: str, options: dict[str, Any], inputs: dict[str, Any]) -> Example:
    torch.manual_seed(0)
    module = getattr(importlib.import_module("diffusers"), kind)(**options).eval()
    return Example(module, (), drawn(inputs))
