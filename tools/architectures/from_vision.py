"""Image models of timm and torchvision, at small image sizes."""

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from tools.architectures.architecture import Architecture, Example

TIMM: dict[str, dict[str, Any]] = {
    "convolutional": {
        name: {"size": 64}
        for name in [
            "resnet18",
            "resnet26d",
            "seresnext26d_32x4d",
            "resnetv2_50",
            "res2net50_26w_4s",
            "resnest14d",
            "ecaresnet26t",
            "legacy_seresnet18",
            "skresnet18",
            "regnetx_002",
            "regnety_002",
            "regnetz_005",
            "efficientnet_b0",
            "efficientnetv2_rw_t",
            "mobilenetv2_050",
            "mobilenetv3_small_050",
            "mobilenetv4_conv_small",
            "mnasnet_small",
            "mixnet_s",
            "fbnetc_100",
            "spnasnet_100",
            "tinynet_e",
            "ghostnet_050",
            "ghostnetv2_100",
            "lcnet_050",
            "hardcorenas_a",
            "rexnet_100",
            "dla34",
            "densenet121",
            "dpn48b",
            "vgg11_bn",
            "cs3darknet_s",
            "cspresnet50",
            "hrnet_w18_small",
            "repvgg_a0",
            "repghostnet_050",
            "mobileone_s0",
            "fasternet_t0",
            "starnet_s1",
            "hgnetv2_b0",
            "hgnet_tiny",
            "selecsls42b",
            "ese_vovnet19b_dw",
            "xception41",
            "nf_resnet26",
            "eca_nfnet_l0",
            "dm_nfnet_f0",
            "tresnet_m",
            "convnext_atto",
            "convnextv2_atto",
            "convmixer_768_32",
            "inception_next_atto",
            "gernet_s",
            "rdnet_tiny",
            "repvit_m0_9",
            "tf_efficientnet_lite0",
            "semnasnet_075",
            "resnetblur50",
        ]
    }
    | {"inception_v3": {"size": 96}, "inception_v4": {"size": 96}, "nasnetalarge": {"size": 96}}
    | {"pnasnet5large": {"size": 96}, "xception65": {"size": 64}},
    "vision transformer": {
        name: {"size": 64, "img_size": 64}
        for name in [
            "vit_tiny_patch16_224",
            "deit_tiny_patch16_224",
            "deit3_small_patch16_224",
            "beit_base_patch16_224",
            "cait_xxs24_224",
            "xcit_nano_12_p16_224",
            "eva02_tiny_patch14_224",
            "vit_relpos_small_patch16_224",
            "vit_small_patch16_dinov3",
            "samvit_base_patch16_224",
            "convit_tiny",
            "tnt_s_legacy_patch16_224",
            "volo_d1_224",
            "visformer_tiny",
            "pit_ti_224",
            "vit_base_patch16_rope_224",
            "vit_small_patch14_reg4_dinov2",
        ]
    }
    | {"swin_tiny_patch4_window7_224": {"size": 224}, "swinv2_tiny_window8_256": {"size": 256}}
    | {"swinv2_cr_tiny_224": {"size": 224}, "twins_svt_small": {"size": 64, "img_size": 64}}
    | {"hiera_tiny_224": {"size": 224}, "hieradet_small": {"size": 224}}
    | {"pvt_v2_b0": {"size": 64}, "nest_tiny": {"size": 224}, "davit_tiny": {"size": 224}}
    | {"mvitv2_tiny": {"size": 224}, "gcvit_xxtiny": {"size": 224}}
    | {
        "naflexvit_base_patch16_gap": {"size": 64},
        "vitamin_small_224": {"size": 224},
        "crossvit_9_240": {"size": 240},
    },
    "hybrid": {
        name: {"size": 64}
        for name in [
            "mobilevit_xxs",
            "mobilevitv2_050",
            "edgenext_xx_small",
            "fastvit_t8",
            "efficientvit_b0",
            "caformer_s18",
            "poolformer_s12",
            "swiftformer_xs",
            "lambda_resnet26t",
            "nextvit_small",
        ]
    }
    | {"coat_tiny": {"size": 64, "img_size": 64}, "levit_128s": {"size": 224}}
    | {"maxvit_pico_rw_256": {"size": 256}, "coatnet_pico_rw_224": {"size": 224}}
    | {"efficientformer_l1": {"size": 224}, "efficientformerv2_s0": {"size": 224}}
    | {"tiny_vit_5m_224": {"size": 224}, "halonet26t": {"size": 256}}
    | {"botnet26t_256": {"size": 256}, "efficientvit_m0": {"size": 224}}
    | {"focalnet_tiny_srf": {"size": 64}, "shvit_s1": {"size": 64}},
    "state space": {"efficientvim_m1": {"size": 224}, "mambaout_femto": {"size": 64}},
    "mixer": {
        name: {"size": 64, "img_size": 64}
        for name in ("mixer_s32_224", "gmixer_24_224", "resmlp_12_224", "gmlp_ti16_224")
    }
    | {"sequencer2d_s": {"size": 224}},
}
"""Family -> model of timm -> side of its square images, and options of `timm.create_model`."""

TORCHVISION = [
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "googlenet",
    "inception_v3",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "swin_t",
    "vgg11_bn",
    "vit_b_32",
    "maxvit_t",
    "wide_resnet50_2",
]
"""Classifiers of torchvision."""
_SIDES = {"inception_v3": 96, "vit_b_32": 224, "maxvit_t": 224}
_DEFAULT_SIDE = 64


def architectures() -> Iterator[Architecture]:
    """timm's models, then torchvision's."""
    for family, models in TIMM.items():
        for name, options in models.items():
            yield Architecture(f"timm/{name}", family, partial(_timm, name, **options))
    for name in TORCHVISION:
        yield Architecture(f"torchvision/{name}", "convolutional", partial(_torchvision, name))


def _timm(name: str, *, size: int, **options: Any) -> Example:
    torch.manual_seed(0)
    timm = importlib.import_module("timm")
    module = timm.create_model(name, pretrained=False, num_classes=10, **options).eval()
    return Example(module, (torch.randn(1, 3, size, size),))


def _torchvision(name: str) -> Example:
    torch.manual_seed(0)
    models = importlib.import_module("torchvision.models")
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    module = models.get_model(name, weights=None, num_classes=10, **options).eval()
    side = _SIDES.get(name, _DEFAULT_SIDE)
    return Example(module, (torch.randn(1, 3, side, side),))
