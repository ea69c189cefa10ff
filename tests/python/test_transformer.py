"""Inference of torch.nn's transformer layers, which PyTorch hands to operators of their own, against the CPU."""
import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close


def both(module, device):
    module = module.eval()
    return module, copy.deepcopy(module).to(device)


@pytest.mark.parametrize("norm_first", (False, True))
@pytest.mark.parametrize("activation", ("relu", "gelu"))
@pytest.mark.parametrize("masks", ((), ("source",), ("padding",), ("source", "padding")))
def test_encoder_layer(masks, activation, norm_first, device):
    layer, moved = both(nn.TransformerEncoderLayer(24, 4, 40, activation=activation, norm_first=norm_first,
                                                   batch_first=True), device)
    x, how = torch.randn(3, 7, 24), {}
    if "source" in masks:
        how["src_mask"] = nn.Transformer.generate_square_subsequent_mask(7)
    if "padding" in masks:
        how["src_key_padding_mask"] = torch.arange(7) >= torch.tensor([[7], [5], [4]])
    with torch.no_grad():
        expected = layer(x, **how)
        actual = moved(x.to(device), **{name: mask.to(device) for name, mask in how.items()})
    assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("need_weights", (False, True))
@pytest.mark.parametrize("average", (False, True))
@pytest.mark.parametrize("kind", (None, "padding", "attention"))
def test_multihead_attention(kind, average, need_weights, device):
    layer, moved = both(nn.MultiheadAttention(24, 4, batch_first=True), device)
    x = torch.randn(3, 7, 24)
    how = dict(need_weights=need_weights, average_attn_weights=average)
    masks = {"padding": ("key_padding_mask", torch.arange(7) >= torch.tensor([[7], [5], [4]])),
             "attention": ("attn_mask", torch.ones(7, 7, dtype=torch.bool).triu(1))}
    extra = dict([masks[kind]]) if kind else {}
    with torch.no_grad():
        expected = layer(x, x, x, **how, **extra)
        y = x.to(device)
        actual = moved(y, y, y, **how, **{name: mask.to(device) for name, mask in extra.items()})
    assert_close(actual[0].cpu(), expected[0], rtol=1e-4, atol=1e-5)
    assert (actual[1] is None) == (expected[1] is None)
    if need_weights:
        assert_close(actual[1].cpu(), expected[1], rtol=1e-4, atol=1e-5)


def test_other_keys_and_values(device):
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    parameters = torch.randn(24, 8), torch.randn(24), torch.randn(8, 8), torch.randn(8)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        for parameter, value in zip((layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight,
                                     layer.out_proj.bias),
                                    parameters):
            parameter.copy_(value)
    layer.train()                                               # computed by PyTorch's own formulas
    expected = layer(q, k, v)
    actual = torch._native_multi_head_attention(*(t.to(device) for t in (q, k, v)), 8, 2,
                                                *(t.to(device) for t in parameters))
    assert_close(actual[0].cpu(), expected[0].detach(), rtol=1e-4, atol=1e-5)
    assert_close(actual[1].cpu(), expected[1].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("enable_nested_tensor", (False, True))
def test_encoder(enable_nested_tensor, device):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder, moved = both(nn.TransformerEncoder(layer, 2, enable_nested_tensor=enable_nested_tensor), device)
    x, padding = torch.randn(2, 6, 16), torch.arange(6) >= torch.tensor([[6], [3]])
    with torch.no_grad():
        assert_close(moved(x.to(device)).cpu(), encoder(x), rtol=1e-4, atol=1e-5)
        actual = moved(x.to(device), src_key_padding_mask=padding.to(device)).cpu()
        expected = encoder(x, src_key_padding_mask=padding)
        assert_close(actual[~padding], expected[~padding], rtol=1e-4, atol=1e-5)


def test_masked_softmax(device):
    x = torch.randn(2, 3, 4, 5)
    masks = {0: torch.rand(4, 5) > 0.6, 1: torch.rand(2, 5) > 0.6, 2: torch.rand(2, 3, 4, 5) > 0.6}
    for kind, mask in masks.items():
        mask[..., 0] = False
        expected = torch.softmax(x.masked_fill(mask[:, None, None] if kind == 1 else mask, -torch.inf), 3)
        assert_close(torch._masked_softmax(x.to(device), mask.to(device), 3, kind).cpu(), expected)
    g, y = torch.randn(2, 3, 4, 5), torch.softmax(x, 3)
    assert_close(torch.ops.aten._masked_softmax_backward(g.to(device), y.to(device), masks[2].to(device), 3).cpu(),
                 torch.ops.aten._masked_softmax_backward(g, y, masks[2], 3))
    for shape, dim in (((4, 5), 0), ((4, 5), 1), ((3, 4, 5), -1), ((2, 3, 4, 5), 0)):
        x, mask = torch.randn(shape), torch.rand(shape) > 0.5
        for kind in (0, 1, 2, None):        # a mask of the scores' shape is itself
            assert_close(torch._masked_softmax(x.to(device), mask.to(device), dim, kind).cpu(),
                         torch._masked_softmax(x, mask, dim, kind), equal_nan=True)
    x = torch.randn(2, 3, 4, 5)
    for mask, kind in ((masks[0].float(), 0), (masks[1], 0), (masks[1], None)):
        with pytest.raises(RuntimeError, match="(?i)mask"):
            torch._masked_softmax(x.to(device), mask.to(device), 3, kind)


def test_transform_bias_rescale_qkv(device):
    qkv, bias = torch.randn(2, 5, 24), torch.randn(24)
    expected = torch._transform_bias_rescale_qkv(qkv, bias, 2)
    assert_close([t.cpu() for t in torch._transform_bias_rescale_qkv(qkv.to(device), bias.to(device), 2)],
                 list(expected))
