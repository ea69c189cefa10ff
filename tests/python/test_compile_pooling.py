"""Compiled pools and halves of images whose sizes are dynamic: one graph for all sizes, with the CPU's values."""
import pytest
import torch
from torch.nn import functional as F

from compiled import close, gradients
from comparison import device

POOLS = {"adaptive_avg": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
         "adaptive_avg_rows": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
         "adaptive_max": lambda x: F.adaptive_max_pool2d(x, 2),
         "adaptive_max_1d": lambda x: F.adaptive_max_pool1d(x[0], 3),
         "adaptive_max_3d": lambda x: F.adaptive_max_pool3d(x, 2),
         "area": lambda x: F.interpolate(x, size=(5, 4), mode="area"),
         "avg_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
         "max_ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
         "glu": lambda x: F.glu(torch.cat([x, x.sin()], -1), -1)}


@pytest.mark.parametrize("name", POOLS)
def test_sizes_compile_once(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: POOLS[name](x) * 2, fullgraph=True)
    for number, (height, width) in enumerate(((11, 14), (12, 13), (10, 12), (15, 17))):
        x = torch.randn(2, 4, height, width).requires_grad_()
        ours = x.detach().to(device).requires_grad_()
        for dimension in (2, 3):
            torch._dynamo.maybe_mark_dynamic(ours, dimension)
        with torch.compiler.set_stance("default" if number == 0 else "fail_on_recompile"):
            actual, expected = compiled(ours), POOLS[name](x) * 2
        close(actual.detach(), expected.detach())
        close(gradients(actual, [ours]), gradients(expected, [x]))
