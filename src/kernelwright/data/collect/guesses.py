"""Likely values of a constructor's parameter, from its name.

Names are matched whole, in lower case, without leading and trailing underscores. Sizes are those of
small deployed models.
"""

import re
from typing import Any

import torch
from torch import nn

BATCH, LENGTH, SIDE = 8, 256, 32
"""Sizes of example inputs: samples, tokens of a sequence, pixels of an image's side."""
WIDTH, CHANNELS = 256, 64
"""Sizes of layers: features of a token, channels of an image."""

_IN_AND_OUT: tuple[tuple[str, int], ...] = (
    (r"(in|n|input)_?(ch|chs|chans|channels?|planes?|nc)|inplanes|c_?in|inp", CHANNELS),
    (r"(out|output)_?(ch|chs|chans|channels?|planes?|nc)|planes|oup|c_?out|n?filters",
     2 * CHANNELS),
    (r"(in|input)\d?_?(features?|dims?|size)|dim_?in|d_?in|n_?in|n_?input|in_?f", 2 * WIDTH),
    (r"(out|output)\d?_?(features?|dims?)|dim_?out|d_?out|n_?out|n_?output|out_?f", 4 * WIDTH),
    (r"(.*_)?(hidden|inter(mediate)?|mlp|ffn?|(dim_)?feedforward|inner|bottleneck)"
     r"(_(.*_)?(dims?|size|features?|channels?|units|width))?", 4 * WIDTH),
)  # fmt: skip
"""Widths that may differ within one module."""

_FLAGS = (
    r"(use|is|with|has|do|add|enable|return|apply|share|learn)_.*|(.*_)?bias|inplace|affine|causal"
    r"|.*_?masked?"
)

_VALUES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    # parts and modes
    (r"norm(alization)?(_?(layer|type|fn|func|class))?",
     (nn.LayerNorm, nn.BatchNorm2d, "layer_norm")),
    (r".*(act|activation|nonlinearity|non_linearity)(_?(layer|fn|func|function|type|cls))?",
     ("relu", nn.ReLU, nn.ReLU())),
    (r"mode", ("nearest",)),
    (r"device|dtype", (None,)),
    # numbers of parts
    (r"(num_|n_)?(attention_?|attn_?|q_?|kv_?|key_value_?)?heads?|nhead|h", (8,)),
    (r"(head|h)_?dim|dim_?head|d_?head|d_?(k|v|kv|q)|(k|v|q|kv)dim", (32, WIDTH)),
    (r"(num_|n_)?groups?|num_group|cardinality", (8, 1)),
    (r"(num_|n_)?experts?", (4,)),
    (r"((num|n)_)(.*_)?(layers?|blocks?|stages?|repeats?)|layers|blocks|depth", (2,)),
    (r"num_parameters", (1,)),
    # tables and classes
    (r"(num_|n_)?(class(es)?|labels?)|nclass", (128,)),
    (r"cutoffs", ([32, 64],)),
    (r"num_embeddings?|n?vocab.*|.*vocab_size|n_?tokens?|ntoken|n_?words", (1024,)),
    # windows
    (r"k|ks|(.*_)?(kernel|filter)(_?size|s)?", (3, 1)),
    (r"s|(.*_)?strides?|dilations?|rate|dilation_rate", (1, 2)),
    (r"pad|padding|(.*_)?padding(_?size)?", (1, 0)),
    (r"patch_?size", (16,)),
    (r"window_?size", (7, (7, 7))),
    (r"output_?(size|shape)", (7, 1)),
    # lengths
    (r"(img|image|input)_?(size|resolution|shape)|resolution", (224, (56, 56), SIDE)),
    (r"(.*_)?(seq|sequence|context|block|max|text)_?(len|length|size)", (LENGTH,)),
    (r".*positions?.*|(num_|n_)?(patches|tokens)|length|seqlen|num_frames", (LENGTH,)),
    (r"batch(_?size)?|bs", (BATCH,)),
    # factors
    (r"(up|down)?_?(scale(_factor)?|scaling|factor)|(upscale|downscale)_?factor", (2,)),
    (r"reduction", ("mean", 4)),
    (r".*(ratio|expansion|expand|squeeze|reduction|mult)(_?factor)?", (4, 2)),
    # real numbers
    (r"(.*_)?p?(dropout|drop)(_?(rate|prob|p|out|path))?(_rate)?|p", (0.1,)),
    (r"(.*_)?eps(ilon)?", (1e-5,)),
    (r"(.*_)?momentum", (0.1,)),
    (r"(min|lower)(_?val(ue)?)?", (-1.0, 0)),
    (r"(max|upper)(_?val(ue)?)?", (1.0,)),
    (r"threshold|value|lambd?|(negative_)?slope|alpha|beta|gamma|delta|margin", (0.5, 1)),
    (r"temp(erature)?|tau|theta|weight|sigma|std|init(ialization)?|.*_init", (0.5, 1)),
    # positions
    (r"(.*_)?(idx|index|layer_?id|layer_?number|block_?id)|i_.*", (0,)),
    (r"axis|dim(0|1)|start_dim|end_dim", (1, -1)),
    (r"unflattened_size", ((16, -1),)),
)  # fmt: skip
"""The likeliest value first."""

_WIDTHS = (
    r"(.*_)?(d_?model|dims?|channels?|features?|width|size|n_?embd?|emb(ed(ding)?)?(_?(dims?|size))?"
    r"|embeddings?|units|planes|shape|c|d|ch|nf|ngf|ndf)"
)
"""Any other width of a layer."""


def values_by_name(name: str, *, alike: bool) -> tuple[Any, ...]:
    """Values that a parameter of this name may take, likeliest first; empty for unknown names.

    Args:
        alike: give all widths one value, which blocks with a residual connection need. Otherwise
            widths of inputs and outputs differ, which shows more of other modules.
    """
    plain = name.lower().strip("_")
    for pattern, size in _IN_AND_OUT:
        if re.fullmatch(pattern, plain):
            return (CHANNELS if alike else size,)
    if re.fullmatch(_FLAGS, plain):
        return (False, True)
    for pattern, values in _VALUES:
        if re.fullmatch(pattern, plain):
            return values
    width = CHANNELS if alike else WIDTH
    if plain == "dim":
        return (width, 1, -1)  # a width more often than a position
    if re.fullmatch(_WIDTHS, plain):
        return (width,)
    return ()


VALUES_BY_TYPE: dict[type, tuple[Any, ...]] = {
    bool: (False, True),
    int: (CHANNELS, 2),
    float: (0.5,),
    torch.dtype: (torch.float32,),
    torch.device: (None,),
}
"""Where a name says nothing and the annotation something."""


def any_layer() -> nn.Module:
    """A linear layer: the value for a constructor's parameter that is annotated as a module."""
    return nn.Linear(WIDTH, WIDTH)


def any_function(x: torch.Tensor) -> torch.Tensor:
    """ReLU: the value for a constructor's parameter that is annotated as a callable."""
    return torch.relu(x)
