"""Region pooling and nms on the device against torchvision on the CPU."""
import pytest
import torch
from torchvision import ops

from comparison import device

assert_close = torch.testing.assert_close

pools = {
    "roi_align": lambda x, r: ops.roi_align(x, r, (3, 4), 0.5, 2, False),
    "roi_align_adaptive": lambda x, r: ops.roi_align(x, r, (3, 4), 0.5, -1, False),
    "roi_align_aligned": lambda x, r: ops.roi_align(x, r, 3, 0.25, -1, True),
    "roi_pool": lambda x, r: ops.roi_pool(x, r, (3, 2), 0.5),
    "ps_roi_align": lambda x, r: ops.ps_roi_align(x, r, (2, 3), 0.5, 2),
    "ps_roi_align_adaptive": lambda x, r: ops.ps_roi_align(x, r, (2, 3), 0.5, -1),
    "ps_roi_pool": lambda x, r: ops.ps_roi_pool(x, r, (3, 2), 0.5),
}


def problem(dtype=torch.float32, n=2, c=12, size=(9, 13), boxes=11, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, c, *size, generator=g, dtype=torch.float64).to(dtype)
    rois = torch.rand(boxes, 5, generator=g, dtype=torch.float64)
    rois[:, 0] = torch.randint(n, (boxes,), generator=g)
    rois[:, 1] = rois[:, 1] * 26 - 4   # some reach outside of the image
    rois[:, 2] = rois[:, 2] * 18 - 3
    rois[:, 3:] = rois[:, 1:3] + rois[:, 3:] * 16
    if boxes > 3:
        rois[0, 1:] = torch.tensor([0.0, 0, 25, 17])    # everything
        rois[1, 1:] = torch.tensor([4.0, 4, 4, 4])      # empty
        rois[2, 1:] = torch.tensor([90.0, 90, 95, 99])  # far outside
    return x, rois.to(dtype)


def run(pool, x, rois, where, change=lambda t: t):
    leaf = change(x.to(where)).detach().requires_grad_()
    y = pool(leaf, rois.to(where))
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(y.dtype)
    y.backward(grad.to(where))
    return y, leaf.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", pools)
def test_pools_match_torchvision(name, dtype):
    for seed in range(3):
        x, rois = problem(dtype, seed=seed)
        for a, b in zip(run(pools[name], x, rois, device), run(pools[name], x, rois, "cpu")):
            assert_close(a.cpu(), b, equal_nan=True)   # PS-RoI align of an empty box is 0 / 0


@pytest.mark.parametrize("name", pools)
def test_pools_keep_channels_last_and_take_views(name):
    x, rois = problem()
    expected = run(pools[name], x, rois, "cpu")
    last = lambda t: t.contiguous(memory_format=torch.channels_last)
    y, grad = run(pools[name], x, rois, device, last)
    assert_close(y.cpu(), expected[0], equal_nan=True)
    assert_close(grad.cpu(), expected[1])
    assert y.is_contiguous(memory_format=torch.channels_last)
    big = torch.zeros(5, 12, 20, 14, device=device)
    view = big[1:5:2, :, 2:20:2, :13]
    view.copy_(x)
    assert_close(pools[name](view, rois.to(device)).cpu(), expected[0], equal_nan=True)


@pytest.mark.parametrize("name", pools)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_the_rounded_float32(name, dtype):
    x, rois = problem(dtype)
    for a, b in zip(run(pools[name], x, rois, device), run(pools[name], x.float(), rois.float(), "cpu")):
        # The gradient that flows back is rounded to the dtype, too.
        assert_close(a.cpu().float(), b, rtol=2**-7 if dtype == torch.bfloat16 else 2**-10, atol=0.02, equal_nan=True)


@pytest.mark.parametrize("name", pools)
def test_no_regions(name):
    x, rois = problem(boxes=0)
    y, grad = run(pools[name], x, rois, device)
    assert y.shape[0] == 0 and grad.cpu().abs().max() == 0


@pytest.mark.parametrize("name", pools)
def test_same_bits_every_run(name):
    x, rois = problem(boxes=200)
    first = run(pools[name], x, rois, device)
    for _ in range(3):
        for a, b in zip(first, run(pools[name], x, rois, device)):
            assert torch.equal(a.cpu().nan_to_num(), b.cpu().nan_to_num())


@pytest.mark.parametrize("name", pools)
def test_image_index_out_of_range(name):
    x, rois = problem()
    rois[3, 0] = 7
    with pytest.raises(Exception, match="index 7 is out of bounds for dimension with size 2"):
        pools[name](x.to(device), rois.to(device)).cpu()
        torch.ocl.synchronize()


@pytest.mark.parametrize("name", pools)
def test_boxes_that_are_no_number(name):
    """NaN and infinite coordinates read nothing outside and disturb no other region."""
    x, rois = problem()
    expected = pools[name](x, rois)
    bad = rois.clone()
    bad[4, 1:] = float("nan")
    bad[5, 3:] = float("inf") if "adaptive" not in name and "aligned" not in name else float("nan")
    y = pools[name](x.to(device), bad.to(device)).cpu()
    others = [i for i in range(len(rois)) if i not in (4, 5)]
    assert_close(y[others], expected[others], equal_nan=True)


def test_gradcheck():
    x, rois = problem(torch.float64, n=1, boxes=3, size=(6, 7))   # none of them empty
    rois[:, 0] = 0
    for pool in pools.values():
        function = lambda t: pool(t.to(device), rois.to(device)).cpu()
        if pool is not pools["ps_roi_pool"]:   # torchvision's gradient counts the last row and column, its forward not
            assert torch.autograd.gradcheck(function, [x.requires_grad_()], fast_mode=True)


def test_list_of_boxes_and_feature_pyramid():
    torch.manual_seed(0)
    features = {"0": torch.randn(2, 8, 32, 32), "1": torch.randn(2, 8, 16, 16)}
    boxes = [torch.tensor([[0.0, 0, 60, 60], [10, 10, 120, 100]]), torch.tensor([[5.0, 5, 20, 90]])]
    pooler = ops.MultiScaleRoIAlign(["0", "1"], 3, 2)
    expected = pooler(features, boxes, [(128, 128), (128, 128)])
    moved = pooler({k: v.to(device)
                    for k, v in features.items()}, [b.to(device) for b in boxes], [(128, 128), (128, 128)])
    assert_close(moved.cpu(), expected)


def random_boxes(n, seed, dtype=torch.float32, spread=100.0):
    g = torch.Generator().manual_seed(seed)
    boxes = torch.rand(n, 4, generator=g, dtype=torch.float64)
    boxes[:, :2] *= spread
    boxes[:, 2:] = boxes[:, :2] + boxes[:, 2:] * 40
    return boxes.to(dtype), torch.rand(n, generator=g, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 500, 3000])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.7])
def test_nms_matches_torchvision(n, threshold):
    for dtype in (torch.float32, torch.float64):
        boxes, scores = random_boxes(n, n, dtype)
        kept = ops.nms(boxes.to(device), scores.to(device), threshold)
        assert kept.dtype == torch.int64
        assert torch.equal(kept.cpu(), ops.nms(boxes, scores, threshold))


def test_nms_equal_scores_strides_and_exact_threshold():
    boxes, scores = random_boxes(200, 3)
    scores = (scores * 5).round()
    assert torch.equal(ops.nms(boxes.to(device), scores.to(device), 0.4).cpu(), ops.nms(boxes, scores, 0.4))
    wide = torch.zeros(200, 8)
    wide[:, ::2] = boxes
    assert torch.equal(ops.nms(wide.to(device)[:, ::2], scores.to(device), 0.4).cpu(), ops.nms(boxes, scores, 0.4))
    # Intersection over union exactly 0.5, 0.7 and 0.1 as floats can hold them: not above the threshold.
    for width, threshold in ((2.0, 0.5), (10 / 7, 0.7), (10.0, 0.1)):
        pair = torch.tensor([[0.0, 0, 1, 1], [0, 0, width, 1]])
        score = torch.tensor([1.0, 0.5])
        assert torch.equal(ops.nms(pair.to(device), score.to(device), threshold).cpu(), ops.nms(pair, score, threshold))


def test_batched_nms():
    boxes, scores = random_boxes(300, 4)
    classes = torch.arange(300) % 7
    kept = ops.batched_nms(boxes.to(device), scores.to(device), classes.to(device), 0.5)
    assert torch.equal(kept.cpu(), ops.batched_nms(boxes, scores, classes, 0.5))


def random_rotated(n, seed, spread=60.0):
    g = torch.Generator().manual_seed(seed)
    boxes = torch.rand(n, 5, generator=g, dtype=torch.float64)
    return boxes * torch.tensor([spread, spread, 40, 40, 1440.0]) + torch.tensor([0, 0, 0.5, 0.5, -720.0])


def overlaps_on_a_grid(first, second, cells=600):
    """By counting the cells of a fine grid over the plane that both boxes cover."""
    places = torch.linspace(-40, 100, cells, dtype=torch.float64)
    x, y = torch.meshgrid(places, places, indexing="xy")

    def covered(boxes):
        cx, cy, w, h, angle = (boxes[:, k, None, None] for k in range(5))
        sine, cosine = torch.deg2rad(angle).sin(), torch.deg2rad(angle).cos()
        along, across = (x - cx) * cosine - (y - cy) * sine, (x - cx) * sine + (y - cy) * cosine
        return ((along.abs() <= w / 2) & (across.abs() <= h / 2)).flatten(1).double()
    a, b = covered(first), covered(second)
    common = a @ b.T
    return common / (a.sum(1)[:, None] + b.sum(1) - common)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_overlaps_of_rotated_boxes(dtype):
    for first, second in ((random_rotated(37, 1), random_rotated(70, 2)),
                          (random_rotated(5, 3), random_rotated(9, 4)[:0])):
        actual = torch.ops.torchvision.box_iou_rotated(first.to(device, dtype), second.to(device, dtype))
        exact = torch.ops.torchvision.box_iou_rotated(first, second)
        assert actual.dtype == torch.float32
        assert_close(actual.cpu(), exact, rtol=1e-5, atol=1e-5)
    assert_close(torch.ops.torchvision.box_iou_rotated(first.to(device), first.to(device)).cpu().double(),
                 overlaps_on_a_grid(first, first), rtol=0, atol=0.02)
    boxes = random_rotated(30, 5).to(dtype)
    wide = torch.zeros(30, 10, dtype=dtype)
    wide[:, ::2] = boxes
    assert_close(ops.box_iou(wide.to(device)[:, ::2], boxes.to(device), fmt="cxcywhr").diagonal().cpu(), torch.ones(30))


def test_rotated_boxes_that_touch_contain_or_lie_afar():
    boxes = torch.tensor([[0.0, 0, 20, 20, 45], [0, 0, 10, 10, 45], [0, 0, 10, 10, 135], [0, 0, 0, 10, 45],
                          [10, 0, 10, 10, 0], [0, 0, 10, 10, 0], [0, 10, 10, 10, 90], [1e18, -1e17, 1000, 1000, 1612],
                          [565, 565, 10, 10, 0], [565, 565, 10, 8.3, 0], [565, 565, 8.3, 10, -90],
                          [0, 0, 20, 10, 45], [0, 0, 20, 10, 135], [0, 0, 1e-3, 1e-3, 10], [0, 0, 1e4, 1e4, 33]])
    for dtype in (torch.float32, torch.float64):
        actual = torch.ops.torchvision.box_iou_rotated(boxes.to(device, dtype), boxes.to(device, dtype)).cpu()
        assert_close(actual, torch.ops.torchvision.box_iou_rotated(boxes.double(), boxes.double()))
        assert actual[4, 5] == actual[5, 6] == 0 and (actual[7, :7] == 0).all() and (actual[3] == 0).all()
        assert_close(actual[[0, 1, 8, 9, 11], [1, 2, 9, 10, 12]], torch.tensor([0.25, 1, 0.83, 1, 1 / 3]))
    with pytest.raises(RuntimeError, match=r"boxes2 should have shape \(M, 5\), got \[15, 4\]"):
        torch.ops.torchvision.box_iou_rotated(boxes.to(device), boxes.to(device)[:, :4])
    with pytest.raises(NotImplementedError, match="Half"):
        torch.ops.torchvision.box_iou_rotated(boxes.half().to(device), boxes.half().to(device))


def test_bad_arguments():
    x, rois = problem()
    x, rois = x.to(device), rois.to(device)
    with pytest.raises(RuntimeError, match=r"rois must have shape|should have shape as Tensor\[K, 5\]"):
        torch.ops.torchvision.roi_align(x, rois[:, :4], 1.0, 2, 2, 2, False)
    with pytest.raises(RuntimeError, match="same type"):
        torch.ops.torchvision.roi_pool(x, rois.double(), 1.0, 2, 2)
    with pytest.raises(RuntimeError, match="multiple of pooling height"):
        ops.ps_roi_pool(x, rois, (5, 5))
    with pytest.raises(RuntimeError, match="same device"):
        torch.ops.torchvision.roi_align(x, rois.cpu(), 1.0, 2, 2, 2, False)
    with pytest.raises(RuntimeError, match="boxes should be a 2d tensor, got 1D"):
        ops.nms(torch.zeros(4, device=device), torch.zeros(1, device=device), 0.5)
    with pytest.raises(RuntimeError, match="same number of elements"):
        ops.nms(torch.zeros(4, 4, device=device), torch.zeros(3, device=device), 0.5)


def test_autocast():
    x, rois = problem()
    with torch.autocast("ocl", dtype=torch.float16):
        y = ops.roi_align(x.half().to(device), rois.half().to(device), 3)
        boxes, scores = random_boxes(50, 1)
        kept = ops.nms(boxes.half().to(device), scores.half().to(device), 0.5)
    assert y.dtype == torch.float16
    assert_close(y.cpu(), ops.roi_align(x.half().float(), rois.half().float(), 3).half())
    assert torch.equal(kept.cpu(), ops.nms(boxes.half().float(), scores.half().float(), 0.5))


def test_double_backward_is_refused():
    x, rois = problem()
    leaf = x.to(device).requires_grad_()
    y = ops.roi_align(leaf, rois.to(device), 2)
    weight = torch.ones(y.shape, device=device, requires_grad=True)
    (g,) = torch.autograd.grad((y * weight).sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on roi_align not supported"):
        g.sum().backward()
