"""The models of validate_compile: of torchvision, timm, transformers and diffusers, small enough for steps on CPUs."""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial

import torch

from torch_ocl.validate import DEFAULT_MODELS, without_dropout

# Images small enough for a step to be short, large enough for batch norms to have more than a few pixels.
SIZE = 96
SIZES = {"inception_v3": 139, "maxvit_t": 224}


@dataclass
class Case:
    """A model and what makes its inputs from a batch size: a dictionary for the call, on the host."""
    model: torch.nn.Module
    inputs: object
    batch: int = 2


def images(size, batch):
    generator = torch.Generator().manual_seed(batch)
    return {"x": torch.randn(batch, 3, size, size, generator=generator)}


def _torchvision(name):
    from torchvision import models

    from torch_ocl.validate import make_model

    if name not in models.list_models():
        raise ValueError(f"torchvision has no model {name}; torchvision.models.list_models() names them all")
    if name.startswith("vit_"):
        torch.manual_seed(0)
        return Case(without_dropout(models.get_model(name, weights=None, image_size=SIZE)), partial(images, SIZE))
    model = make_model(name)
    if name == "inception_v3":       # its auxiliary classifier works with a single size, and normalises single pixels
        model.aux_logits, model.AuxLogits = False, None
    return Case(model, partial(images, SIZES.get(name, SIZE)))


def _timm(name):
    from torch_ocl.validate_timm import MODELS, make_model

    return Case(make_model(name), partial(images, MODELS.get(name, 224)))


def _transformers(name):
    import transformers

    from torch_ocl.validate_transformers import MODELS, make_inputs, make_model

    transformers.logging.set_verbosity_error()
    kind = MODELS[name].inputs
    model = make_model(name, "sdpa") or make_model(name, "eager")

    def inputs(batch):
        made = make_inputs(kind, torch.float32, longer=3 * (batch - 2))
        made.pop("labels", None) if not model.config.is_encoder_decoder else None
        rows = [i % 2 for i in range(batch)]
        return {key: value[rows] for key, value in made.items()}

    return Case(model, inputs)


def _diffusers(name):
    from diffusers import AutoencoderKL, UNet2DConditionModel, UNet2DModel

    torch.manual_seed(0)
    small = dict(block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8)
    if name == "unet":
        model = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, attention_head_dim=8, **small,
                            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                            up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    elif name == "unet_condition":
        model = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, attention_head_dim=8, **small,
                                     cross_attention_dim=32, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                     up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    elif name == "autoencoder":
        model = AutoencoderKL(block_out_channels=(32, 64), norm_num_groups=8, latent_channels=4, sample_size=32,
                              down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    else:
        raise ValueError(f"no model {name} of diffusers; there are {', '.join(DIFFUSERS)}")

    def inputs(batch):
        generator = torch.Generator().manual_seed(batch)
        if name == "autoencoder":
            return {"sample": torch.randn(batch, 3, 32, 32, generator=generator)}
        made = {"sample": torch.randn(batch, model.config.in_channels, 16, 16, generator=generator),
                "timestep": torch.randint(0, 1000, (batch,), generator=generator)}
        if name == "unet_condition":
            made["encoder_hidden_states"] = torch.randn(batch, 7, 32, generator=generator)
        return made

    return Case(model, inputs)


DIFFUSERS = ("unet", "unet_condition", "autoencoder")
MAKERS = {"torchvision": _torchvision, "transformers": _transformers, "timm": _timm, "diffusers": _diffusers}


def fill_zeros(model):
    """Parameters of zeros only (a classifier's, in some networks) would hide everything ahead of them."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and not parameter.any():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 20)


def default_models(package):
    if package in ("timm", "transformers"):
        return tuple(importlib.import_module(f"torch_ocl.validate_{package}").MODELS)
    return DIFFUSERS if package == "diffusers" else DEFAULT_MODELS
