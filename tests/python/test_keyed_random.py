"""Random numbers of keys: those of PyTorch's CPU."""

import pytest
import torch

from comparison import device
from since import since

aten = torch.ops.aten
pytestmark = since("2.12", "keys of random numbers", hasattr(aten, "_philox_uniform_"))
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def keys(count=None):
    key = torch.tensor([(5 << 40) + 3, (1 << 33) + 5], dtype=torch.uint64)
    return key if count is None else aten._philox_key_split(key, count)


def test_split_and_fold_in():
    for key in (keys(), keys(6), keys(6).view(2, 3, 2), keys(3)[:0]):
        there = key.to(device)
        assert torch.equal(aten._philox_key_split(there, 3).cpu(), aten._philox_key_split(key, 3))
        for number in (0, 7, -1):
            assert torch.equal(aten._philox_key_fold_in(there, number).cpu(), aten._philox_key_fold_in(key, number))
        number = torch.tensor(2**63 + 9, dtype=torch.uint64)
        assert torch.equal(aten._philox_key_fold_in(there, number.to(device)).cpu(),
                           aten._philox_key_fold_in(key, number))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
def test_numbers(dtype):
    for fill, a, b in ((aten._philox_uniform_, 0.0, 1.0), (aten._philox_uniform_, -2.0, 3.0),
                       (aten._philox_normal_, 0.0, 1.0), (aten._philox_normal_, 1.0, -0.5)):
        for shape, key in (((1003,), keys()), ((0,), keys()), ((), keys()), ((2, 3, 5), keys(6).view(2, 3, 1, 2)),
                           ((2, 3, 5), keys(3).view(1, 3, 1, 2)), ((2, 3), keys(6).view(2, 3, 2)),
                           ((2, 3), keys(1).view(1, 1, 2))):
            expected = fill(torch.empty(shape, dtype=dtype), key, a, b)
            got = fill(torch.empty(shape, dtype=dtype, device=device), key.to(device), a, b)
            torch.testing.assert_close(got.cpu(), expected)
    x = torch.zeros(7, 5, dtype=dtype, device=device)
    aten._philox_uniform_(x.t()[:, ::2], keys().to(device))
    torch.testing.assert_close(x.cpu().t()[:, ::2],
                               aten._philox_uniform_(torch.empty(5, 4, dtype=dtype), keys()))
    assert not x[1::2].any()


def test_refusals():
    x, key = torch.empty(2, 3, device=device), keys().to(device)
    with pytest.raises(NotImplementedError, match="_philox_uniform_.*Long"):
        aten._philox_uniform_(x.long(), key)
    for wrong, said in ((key.float(), "uint64"), (keys(2).to(device), "ndim"), (keys(), "same device"),
                        (keys(4).view(2, 2, 2).to(device), "broadcastable")):
        with pytest.raises(RuntimeError, match=said):
            aten._philox_normal_(x, wrong)
    with pytest.raises(RuntimeError, match="positive"):
        aten._philox_key_split(key, 0)
