"""Random chains of views, with writes and indexing through them, against PyTorch's CPU."""
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from comparison import device

DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)
runs = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
shapes = st.lists(st.sampled_from((1, 1, 2, 3, 4, 5, 0)), max_size=4)


def filled(shape, dtype):
    """Small whole numbers, exact in every type."""
    return torch.arange(torch.Size(shape).numel()).remainder(7).reshape(shape).to(dtype)


def draw_view(draw, x):
    """A function that makes a view of a tensor like x."""
    kind = draw(st.sampled_from(("unsqueeze", "permute", "slice", "select", "diagonal", "unfold", "expand", "flat")))
    axis = draw(st.integers(0, max(x.dim() - 1, 0)))
    size = x.size(axis) if x.dim() else 0
    if kind == "permute":
        order = draw(st.permutations(range(x.dim())))
        return lambda t: t.permute(order)
    if kind == "slice" and x.dim():
        cut = slice(draw(st.integers(-6, 6)), draw(st.integers(-6, 6)), draw(st.integers(1, 3)))
        return lambda t: t[(slice(None),) * axis + (cut,)]
    if kind == "select" and size:
        index = draw(st.integers(-size, size - 1))
        return lambda t: t.select(axis, index)
    if kind == "diagonal" and x.dim() >= 2:
        offset = draw(st.integers(-2, 2))
        return lambda t: t.diagonal(offset, axis, (axis + 1) % t.dim())
    if kind == "unfold" and size:
        width, step = draw(st.integers(1, size)), draw(st.integers(1, 3))
        return lambda t: t.unfold(axis, width, step)
    if kind == "expand" and 1 in x.shape:
        return lambda t: t.expand([3 if s == 1 else s for s in t.shape])
    if kind == "flat":
        return lambda t: t.flatten()
    return lambda t: t.unsqueeze(axis)


def draw_index(draw, x):
    """An index of slices, numbers, None, lists of positions and masks."""
    index, axis, common = [], 0, draw(st.integers(1, 3))
    while axis < x.dim() and draw(st.integers(0, 3)):
        kind = draw(st.sampled_from(("slice", "none", "number", "list", "list", "mask")))
        size = x.size(axis)
        if kind == "none":
            index.append(None)
            continue
        if kind == "number" and size:
            index.append(draw(st.integers(-size, size - 1)))
        elif kind == "list" and size:
            index.append(torch.tensor(draw(st.lists(st.integers(-size, size - 1), min_size=common, max_size=common))))
        elif kind == "mask":
            index.append(torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool))
        else:
            index.append(slice(draw(st.integers(-6, 6)), None, draw(st.integers(1, 2))))
        axis += 1
    return tuple(index)


def on(device, index):
    return tuple(i.to(device) if isinstance(i, torch.Tensor) else i for i in index)


def attempt(function, x):
    try:
        return function(x), None
    except (RuntimeError, IndexError) as error:   # masks of different counts do not broadcast, and the like
        return None, type(error)


@runs
@given(st.data())
def test_chains(data):
    expected = filled(data.draw(shapes), data.draw(st.sampled_from(DTYPES)))
    actual = expected.to(device)
    for _ in range(data.draw(st.integers(1, 5))):
        step = draw_view(data.draw, expected)
        expected, actual = step(expected), step(actual)
        assert expected.stride() == actual.stride() and expected.storage_offset() == actual.storage_offset()
        assert_close(actual.cpu(), expected)
    if not any(size > 1 and stride == 0 for size, stride in zip(expected.shape, expected.stride())):
        for x in (expected, actual):
            x.fill_(1)
        assert_close(actual.cpu(), expected)
    assert_close(actual.clone().cpu(), expected.clone())


@runs
@given(st.data())
def test_indexing(data):
    expected = filled(data.draw(shapes), data.draw(st.sampled_from(DTYPES)))
    actual = expected.to(device)
    step = draw_view(data.draw, expected)
    expected, actual = step(expected), step(actual)
    index = draw_index(data.draw, expected)
    found, failed = attempt(lambda x: x[on(x.device, index)], actual)
    right, refused = attempt(lambda x: x[index], expected)
    assert failed == refused
    if refused is None:
        assert_close(found.cpu(), right)
        copies = expected.clone(), actual.clone()
        value = torch.tensor(data.draw(st.integers(0, 1)), dtype=expected.dtype)
        for x in copies:
            x[on(x.device, index)] = value.to(x.device)
        assert_close(copies[1].cpu(), copies[0])
