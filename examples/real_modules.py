"""Real modules with random weights: a Llama decoder layer, a BERT layer, a ResNet block.

    kernelwright optimize examples.real_modules:llama_layer

The first two come from transformers (`pip install transformers`), the third is written as in
torchvision. Sizes are those of deployed models on a GPU and small elsewhere.
"""

import torch
from torch import nn

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"


def llama_layer():
    """One decoder layer with the sizes of Llama 3.2 1B: (module, inputs, keyword inputs)."""
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=2048 if ON_GPU else 64,
        intermediate_size=8192 if ON_GPU else 128,
        num_attention_heads=32 if ON_GPU else 4,
        num_key_value_heads=8 if ON_GPU else 2,
        attn_implementation="sdpa",
    )
    tokens = 2048 if ON_GPU else 16
    layer = LlamaDecoderLayer(config, layer_idx=0).eval().to(DEVICE)
    hidden = torch.randn(2, tokens, config.hidden_size, device=DEVICE)  # (batch, tokens, hidden)
    positions = torch.arange(tokens, device=DEVICE)[None]
    rotary = LlamaRotaryEmbedding(config).to(DEVICE)(hidden, positions)
    return layer, (hidden,), {"position_embeddings": rotary}


def bert_layer():
    """One encoder layer of BERT base: (module, inputs)."""
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig(
        hidden_size=768 if ON_GPU else 64,
        intermediate_size=3072 if ON_GPU else 128,
        num_attention_heads=12 if ON_GPU else 4,
        attn_implementation="sdpa",
    )
    shape = (16, 512, 768) if ON_GPU else (2, 16, 64)  # (batch, tokens, hidden)
    return BertLayer(config).eval().to(DEVICE), (torch.randn(shape, device=DEVICE),)


class Bottleneck(nn.Module):
    """The residual block of ResNet-50 (v1.5), as in torchvision."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x
        return self.relu(out)


def resnet_block():
    """A block of ResNet-50's first stage: (module, inputs)."""
    batch, channels, size = (64, 256, 56) if ON_GPU else (2, 8, 6)
    block = Bottleneck(channels, channels // 4).eval().to(DEVICE)
    return block, (torch.randn(batch, channels, size, size, device=DEVICE),)
