"""Every family of kernels once, on shapes small enough for a simulator (tools/oclgrind.sh), against PyTorch's CPU.

Shapes are odd, so that the ends of tiles and vectors are met, and large enough for a second work-group where one is
used.
"""
import pytest
import torch
import torch.nn.functional as F
import torchvision.ops as vision


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def random_bytes(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def boxes(*corners):
    return torch.tensor(corners, dtype=torch.float32)


def symmetric(n):
    a = torch.randn(n, n)
    return a @ a.T + n * torch.eye(n)


def pool_indices(x):
    return F.max_pool2d(x, 2, return_indices=True)


def norm_step(x, weight, bias):
    """Batch normalisation in training, with its running statistics."""
    mean, var = torch.zeros_like(weight), torch.ones_like(weight)
    return F.batch_norm(x, mean, var, weight, bias, training=True), mean, var


def adam(parameter, gradient):
    parameter = parameter.detach().clone().requires_grad_()
    other = gradient.detach().clone().requires_grad_()
    optimizer = torch.optim.AdamW([parameter, other], lr=0.1, foreach=True)
    for _ in range(2):
        parameter.grad, other.grad = gradient.detach().clone(), parameter.detach().clone()
        optimizer.step()
    torch.nn.utils.clip_grad_norm_([parameter, other], 0.5)
    return parameter.detach(), parameter.grad


# name: (function of tensors, tensors). Gradients of the first result reach all floating-point tensors.
CASES = {
    "pointwise": (lambda a, b: torch.sigmoid(a) * b + a.exp() / (1 + b * b), [random(5, 7), random(7)]),
    "pointwise-strided": (lambda a, b: torch.where(a > 0, a.T, b).mul(2), [random(9, 9), random(9, 9)]),
    "pointwise-special": (lambda a: torch.special.gammaln(a) + torch.erfinv(a / 4) + torch.special.i0(a),
                          [torch.rand(37) * 3 + 0.1]),
    "pointwise-integers": (lambda a, b: (a // b, a % b, a ^ b), [torch.arange(-20, 20), torch.arange(1, 41)]),
    "pointwise-float64": (lambda a: a.tanh() + a.sqrt(), [torch.rand(11, dtype=torch.float64) + 1]),
    "pointwise-bfloat16": (lambda a, b: a * b + 1, [random(21, dtype=torch.bfloat16),
                                                    random(21, dtype=torch.bfloat16)]),
    "copy-transposed": (lambda a: a.transpose(0, 1).contiguous(), [random(37, 41)]),
    "copy-axes": (lambda a: F.pixel_shuffle(a, 2), [random(2, 12, 3, 5)]),
    "copy-strided": (lambda a: a[::2, 1::3].contiguous(), [random(19, 23)]),
    "copy-cast": (lambda a: (a.to(torch.int16), a.to(torch.bfloat16).to(torch.float32)), [random(6, 50) * 9]),
    "concat": (lambda a, b: torch.cat([a, b, a], 1), [random(3, 5), random(3, 8)]),
    "reduce-all": (lambda a: a.sum(), [random(700)]),
    "reduce-rows": (lambda a: a.var(1), [random(5, 300)]),
    "reduce-columns": (lambda a: a.mean(0), [random(130, 7)]),
    "reduce-extremes": (lambda a: (a.amax((0, 2)), a.argmin(1), a.norm()), [random(4, 70, 5)]),
    "scan-rows": (lambda a: a.cumsum(1), [random(3, 700)]),
    "scan-long": (lambda a: a.cumsum(0), [random(4100)]),
    "scan-columns": (lambda a: a.cumsum(0), [random(40, 5)]),
    "scan-extremes": (lambda a: a.cummax(1), [random(3, 90)]),
    "scan-logcumsumexp": (lambda a: a.logcumsumexp(0), [random(90)]),
    "nonzero": (lambda a: (a > 0).nonzero(), [random(17, 31)]),
    "sort-rows": (lambda a: torch.sort(a, dim=1, stable=True), [random(3, 70)]),
    "sort-merged": (lambda a: torch.sort(a, stable=True, descending=True), [random(2200)]),
    "topk": (lambda a: a.topk(3), [random(4, 40)]),
    "mode": (lambda a: a.mode(1).values, [torch.randint(0, 4, (3, 20))]),
    "searchsorted": (lambda a, b: torch.searchsorted(a, b), [random(30).sort()[0], random(9)]),
    "softmax-rows": (lambda a: a.softmax(1), [random(4, 75)]),
    "softmax-columns": (lambda a: a.log_softmax(1), [random(2, 9, 7)]),
    "batch-norm": (norm_step, [random(3, 5, 4, 7), random(5), random(5)]),
    "batch-norm-channels-last": (norm_step, [random(3, 40, 4, 4).to(memory_format=torch.channels_last), random(40),
                                             random(40)]),
    "batch-norm-inference": (lambda x, w, b: F.batch_norm(x, b.detach(), w.detach() ** 2 + 1, w, b),
                             [random(2, 3, 9), random(3), random(3)]),
    "layer-norm": (lambda x, w, b: F.layer_norm(x, (70,), w, b), [random(5, 70), random(70), random(70)]),
    "group-norm": (lambda x, w, b: F.group_norm(x, 3, w, b), [random(2, 6, 5, 3), random(6), random(6)]),
    "max-pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [random(2, 3, 9, 11)]),
    "max-pool-indices": (pool_indices, [random(1, 3, 6, 6)]),
    "average-pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), [random(2, 3, 9, 7)]),
    "adaptive-pool": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [random(2, 3, 7, 9)]),
    "max-unpool": (lambda x: F.max_unpool2d(*pool_indices(x), 2), [random(1, 2, 6, 4)]),
    "pad": (lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"), [random(2, 2, 5, 6)]),
    "pad-constant": (lambda x: F.pad(x, (2, -1, 0, 3), value=3), [random(2, 5, 6)]),
    "resample-bilinear": (lambda x: F.interpolate(x, (9, 5), mode="bilinear"), [random(2, 3, 4, 7)]),
    "resample-bicubic": (lambda x: F.interpolate(x, (7, 6), mode="bicubic", align_corners=True), [random(1, 2, 5, 4)]),
    "resample-nearest": (lambda x: F.interpolate(x, scale_factor=2), [random(1, 2, 3, 4)]),
    "resample-trilinear": (lambda x: F.interpolate(x, (5, 3, 4), mode="trilinear"), [random(1, 5, 3, 4, 2)]),
    "resample-antialias": (lambda x: F.interpolate(x, (4, 3), mode="bilinear", antialias=True), [random(1, 2, 9, 8)]),
    "grid-sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), [random(2, 2, 5, 6), random(2, 3, 4, 2)]),
    "unfold": (lambda x: F.unfold(x, 3, padding=1, stride=2), [random(2, 3, 7, 6)]),
    "fold": (lambda x: F.fold(x, (6, 5), 2), [random(1, 8, 20)]),
    "gemm": (torch.mm, [random(37, 45), random(45, 50)]),
    "gemm-batched": (torch.bmm, [random(3, 9, 20), random(3, 20, 17)]),
    "gemm-batched-packed": (lambda a, b: a.mT @ b, [random(2, 7, 5, dtype=torch.float16),
                                                    random(2, 7, 19, dtype=torch.float16)]),
    "gemm-batched-complex": (lambda a, b: torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b)),
                             [random(3, 5, 7, 2), random(3, 7, 6, 2)]),
    "gemm-transposed": (lambda a, b, c: torch.addmm(c, a.T, b.T), [random(20, 33), random(35, 20), random(35)]),
    "gemm-vector": (torch.mv, [random(30, 70), random(70)]),
    "gemm-float64": (torch.mm, [random(9, 20, dtype=torch.float64), random(20, 18, dtype=torch.float64)]),
    "gemm-complex": (lambda a, b: torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b)),
                     [random(5, 7, 2), random(7, 6, 2)]),
    "gemm-int8": (torch._int_mm, [random_bytes(20, 72), random_bytes(72, 24)]),
    "gemm-int8-transposed": (lambda a, b: torch._int_mm(a, b.T), [random_bytes(18, 40), random_bytes(24, 40)]),
    # lies along k at multiples of sixteen bytes, as matrix engines read it
    "gemm-int8-aligned": (lambda a, b: torch._int_mm(a, b.T), [random_bytes(20, 64), random_bytes(24, 64)]),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [random(2, 5, 9, 8), random(9, 5, 3, 3), random(9)]),
    "conv-strided": (lambda x, w: F.conv2d(x, w, stride=2, dilation=2, groups=2), [random(1, 4, 11, 10),
                                                                                 random(6, 2, 3, 3)]),
    "conv-depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=6), [random(1, 6, 9, 7), random(6, 1, 3, 3)]),
    "conv-depthwise-strided": (lambda x, w: F.conv2d(x, w, stride=2, groups=3), [random(1, 3, 9, 7),
                                                                               random(6, 1, 3, 2)]),
    "conv-channels-last": (lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w), [random(1, 8, 6, 6),
                                                                                                random(8, 8, 1, 1)]),
    "conv-transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), [random(1, 4, 5, 5),
                                                                                     random(4, 3, 3, 3)]),
    "conv3d": (lambda x, w: F.conv3d(x, w), [random(1, 2, 3, 3, 4), random(3, 2, 2, 2, 2)]),
    "deform-conv": (lambda x, o, w, m: vision.deform_conv2d(x, o, w, padding=1, mask=m),
                    [random(1, 4, 5, 6), random(1, 18, 5, 6), random(5, 4, 3, 3), random(1, 9, 5, 6)]),
    "roi-align": (lambda x: vision.roi_align(x, boxes((0, 1, 1, 6, 7), (1, 0, 2, 5, 4)).to(x.device), (3, 2), 0.5),
                  [random(2, 3, 8, 8)]),
    "roi-pool": (lambda x: vision.roi_pool(x, boxes((0, 1, 1, 6, 7)).to(x.device), (3, 2)), [random(1, 3, 8, 8)]),
    "ps-roi": (lambda x: vision.ps_roi_align(x, boxes((0, 1, 1, 6, 7)).to(x.device), 2), [random(1, 8, 8, 8)]),
    "nms": (lambda b, s: vision.nms(b, s, 0.3), [torch.rand(70, 2).repeat(1, 2) + torch.tensor([0, 0, 0.4, 0.5]),
                                                torch.rand(70)]),
    "rotated-overlaps": (lambda a, b: torch.ops.torchvision.box_iou_rotated(a.detach(), b.detach()),
                         [torch.rand(9, 5) * 20, torch.rand(5, 5) * 20]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                  [random(1, 2, 35, 12), random(1, 2, 35, 12),
                   random(1, 2, 35, 12)]),
    "attention-odd-heads": (F.scaled_dot_product_attention,
                            [random(1, 2, 18, 7), random(1, 2, 20, 7), random(1, 2, 20, 7)]),
    "attention-few-queries": (F.scaled_dot_product_attention,
                              [random(1, 2, 1, 6), random(1, 2, 20, 6), random(1, 2, 20, 5)]),
    "attention-masked": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m.detach()),
                         [random(1, 2, 6, 8), random(1, 2, 9, 8),
                          random(1, 2, 9, 8), random(6, 9)]),
    "cross-entropy": (lambda x, t: F.cross_entropy(x, t, ignore_index=2, label_smoothing=0.1),
                      [random(9, 5), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3])]),
    "nll2d": (lambda x, t: F.nll_loss(x, t), [random(2, 4, 3, 5), torch.randint(0, 4, (2, 3, 5))]),
    "multi-margin": (lambda x, t: F.multi_margin_loss(x, t), [random(5, 6), torch.tensor([0, 5, 2, 3, 1])]),
    "multilabel-margin": (lambda x, t: F.multilabel_margin_loss(x, t),
                          [random(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])]),
    "ctc": (lambda x, t: F.ctc_loss(x.log_softmax(2), t, torch.tensor([7, 6]), torch.tensor([3, 2])),
            [random(7, 2, 5), torch.tensor([[1, 2, 2], [4, 1, 1]])]),
    "index": (lambda x, i: x[i], [random(9, 5), torch.tensor([3, -1, 3, 0])]),
    "gather": (lambda x, i: x.gather(1, i), [random(4, 6), torch.randint(0, 6, (4, 3))]),
    "scatter-add": (lambda x, i, s: x.scatter_add(0, i, s), [random(5, 4), torch.randint(0, 5, (6, 4)), random(6, 4)]),
    "scatter-many": (lambda x, i: x.scatter_add(1, i, x), [random(3, 1400), torch.randint(0, 90, (3, 1400))]),
    "scatter-reduce": (lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), [random(3, 5), torch.randint(0, 5, (3, 7)),
                                                                         random(3, 7)]),
    "index-add": (lambda x, i, s: x.index_add(0, i, s), [random(5, 3), torch.tensor([1, 4, 1]), random(3, 3)]),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=1), [random(6, 5), torch.tensor([[1, 5], [5, 0]])]),
    "masked": (lambda x: (x.masked_fill(x > 0, 2), x.masked_select(x > 0), x.triu(1)), [random(6, 9)]),
    "cdist": (lambda a, b: torch.cdist(a, b, p=1.5), [random(5, 7), random(4, 7)]),
    "fft": (lambda a: torch.view_as_real(torch.fft.fft(a)), [random(2, 12)]),
    "determinant": (lambda a: torch.linalg.det(a), [symmetric(4).flip(0)]),
    "solve": (lambda a, b: torch.linalg.solve(a, b), [symmetric(3).flip(0), random(3, 2)]),
    "cholesky": (lambda a: torch.linalg.cholesky(a), [symmetric(3)]),
    "qr": (lambda a: torch.linalg.qr(a)[1].abs(), [symmetric(3)]),
    "eigenvalues": (lambda a: torch.linalg.eigvalsh(a), [symmetric(3)]),
    "singular-values": (lambda a: torch.linalg.svdvals(a), [random(4, 3)]),
    "optimizer": (adam, [random(70), random(70)]),
}


@pytest.mark.parametrize("case", CASES)
def test_family(device, case):
    function, tensors = CASES[case]
    results = []
    for place in ("cpu", device):
        inputs = [t.to(place).requires_grad_(t.is_floating_point()) for t in (t.detach().clone() for t in tensors)]
        inputs = [t.detach().requires_grad_(t.is_floating_point()) for t in inputs]
        outputs = function(*inputs)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        first = outputs[0]
        if first.requires_grad:
            torch.manual_seed(1)
            first.backward(torch.randn(first.shape).to(first))
            outputs += [t.grad for t in inputs if t.grad is not None]
        results.append([t.detach().cpu() for t in outputs])
    torch.testing.assert_close(results[1], results[0])


def test_attention_of_rows_of_different_lengths(device):
    """Jagged tensors, against attention of each row alone."""
    parts = [torch.randn(n, 2, 12) for n in (3, 0, 7)]
    rows = torch.nested.nested_tensor(parts, layout=torch.jagged, device=device, requires_grad=True)
    heads = rows.transpose(1, 2)
    got = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).values()
    got.square().sum().backward()
    leaves = [part.clone().requires_grad_() for part in parts]
    want = [F.scaled_dot_product_attention(*[x.transpose(0, 1)] * 3).transpose(0, 1) for x in leaves]
    torch.cat(want).square().sum().backward()
    torch.testing.assert_close(got.detach().cpu(), torch.cat(want).detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rows.grad.values().cpu(), torch.cat([x.grad for x in leaves]), rtol=1e-4, atol=1e-5)


def test_random_numbers(device):
    """Uniform, normal and other variates stay in their ranges; drawing without replacement draws no number twice."""
    x = torch.empty(300, device=device)
    assert 0 <= x.uniform_().min() and x.max() < 1
    assert x.normal_().abs().max() < 7
    assert x.exponential_().min() >= 0
    assert torch.randperm(20, device=device).sort()[0].tolist() == list(range(20))
    chosen = torch.multinomial(torch.ones(3, 9, device=device), 9).sort(1)[0]
    assert chosen.tolist() == [list(range(9))] * 3
    assert set(torch.poisson(torch.full((40,), 2.0, device=device)).frac().tolist()) == {0}
    kept = F.dropout(torch.ones(300, device=device), 0.25)
    torch.testing.assert_close(kept[kept != 0].unique().cpu(), torch.tensor([4 / 3]))
