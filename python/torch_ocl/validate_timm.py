"""Compares models of the package timm on an OpenCL device with the CPU, as `validate` does those of torchvision: a
small one of each family, random weights, small images where the family takes them.

Networks in which rounding grows past all limits tell nothing in float32 (on the CPU neither) and are not among the
default ones: rexnet, convmixer and efficientvit_b0. With --dtype float64 they may be compared as well.
"""
from __future__ import annotations

import sys

import torch

from torch_ocl.validate import compare_steps, parser_of, report_all, without_dropout

SMALL = 160   # of models whose image size is free, or given when they are made
MODELS = {    # name: image size
    "resnet18d": SMALL, "resnet26t": SMALL, "resnest14d": SMALL, "skresnet18": SMALL, "legacy_seresnet18": SMALL,
    "resnetv2_18": SMALL, "res2net50_14w_8s": SMALL, "seresnext26d_32x4d": SMALL, "ecaresnet26t": SMALL,
    "densenet121": SMALL, "dla46_c": SMALL, "dpn48b": SMALL, "cs3darknet_focus_s": SMALL, "cspnext_tiny": SMALL,
    "hrnet_w18_small": SMALL, "ese_vovnet19b_slim": SMALL, "regnetx_002": SMALL, "regnety_002": SMALL,
    "efficientnet_b0": SMALL, "tf_efficientnetv2_b0": SMALL, "mixnet_s": SMALL, "mobilenetv3_small_050": SMALL,
    "mobilenetv4_conv_small": SMALL, "mobileone_s0": SMALL, "ghostnet_050": SMALL, "fasternet_t0": SMALL,
    "repvit_m0_9": SMALL, "starnet_s050": SMALL, "hgnetv2_b0": SMALL, "halonet_h1": 256, "inception_next_atto": SMALL,
    "nf_regnet_b0": 192, "test_nfnet": SMALL, "convnext_atto": SMALL, "convnextv2_atto": SMALL,
    "edgenext_xx_small": SMALL, "mobilevit_xxs": 256, "mobilevitv2_050": 256, "fastvit_t8": 256,
    "poolformer_s12": SMALL,
    "test_maxvit": SMALL, "test_coatnet": SMALL, "test_mambaout": SMALL, "test_vit": SMALL,
    "test_vit_relpos": SMALL, "deit_tiny_distilled_patch16_224": 224, "eva02_tiny_patch14_224": 224,
    "beit_base_patch16_224": 224,
    "cait_xxs24_224": 224, "convit_tiny": 224, "crossvit_9_240": 240, "coat_tiny": 224, "davit_tiny": SMALL,
    "efficientformerv2_s0": 224, "focalnet_tiny_srf": SMALL, "gcvit_xxtiny": 224, "gmlp_ti16_224": 224,
    "mixer_s32_224": 224,
    "resmlp_12_224": 224, "levit_128s": 224, "mvitv2_tiny": 224, "nest_tiny": 224, "pit_ti_224": 224,
    "pvt_v2_b0": SMALL,
    "sequencer2d_s": 224, "swiftformer_xs": 224, "swin_tiny_patch4_window7_224": 224, "swinv2_tiny_window8_256": 256,
    "tiny_vit_5m_224": 224, "tnt_s_patch16_224": 224, "twins_svt_small": 224, "visformer_tiny": 224,
    "xcit_nano_12_p16_224": 224,
    "volo_d1_224": 224,
}


def make_model(name):
    """The model with fixed random weights and without randomness of its own."""
    import timm

    torch.manual_seed(0)
    model = without_dropout(timm.create_model(name, pretrained=False, num_classes=1000, drop_rate=0.0))
    for module in model.modules():
        if type(module).__name__ == "DropPath":
            module.drop_prob = 0.0
    return model


def validate(name, device, batch=2, size=None, dtype=torch.float32):
    size = size or MODELS.get(name, 224)
    return compare_steps(name, make_model(name), (batch, 3, size, size), device, dtype)


def main(arguments):
    parser = parser_of("validate --timm", __doc__,
                       f"any model of timm (default: {len(MODELS)}, one or two of each family)")
    parser.add_argument("--batch", type=int, default=2, help="images per step (default: 2)")
    parser.add_argument("--size", type=int, help="image height and width (default: the model's, or smaller)")
    options = parser.parse_args(arguments)
    try:
        import timm
    except ImportError as error:
        print(f"The package timm is needed: pip install timm ({error})", file=sys.stderr)
        return 2
    if unknown := [name for name in options.models if not timm.is_model(name)]:
        print(f"timm has no model {', '.join(unknown)}; timm.list_models() names them all", file=sys.stderr)
        return 2
    dtype = getattr(torch, options.dtype)
    return report_all(options.models or MODELS,
                      lambda name: validate(name, options.device, options.batch, options.size, dtype), options)
