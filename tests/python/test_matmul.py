"""Matrix products against PyTorch's CPU results: dtypes, strides, broadcast addends, edges and errors."""
import pytest
import torch
from torch.testing import assert_close

from comparison import FLOATS, INTEGERS, device

COMPLEX = [torch.complex64, torch.complex128]


def make(shape, dtype=torch.float32):
    if dtype in INTEGERS:
        return torch.randint(0 if dtype == torch.uint8 else -100, 100, shape, dtype=dtype)
    if dtype in COMPLEX:
        return torch.randn(shape, dtype=dtype) / 4
    return torch.rand(shape, dtype=dtype) - 0.5


def both(function, *tensors, **options):
    """Runs on both devices and compares; the tensors keep their strides and offsets on the device."""
    expected = function(*tensors, **options)
    found = function(*[on_device(t) for t in tensors], **options)
    assert found.device.type == "ocl"
    assert_close(found.cpu(), expected)


def on_device(tensor):
    if tensor.is_conj():
        return on_device(tensor.conj()).conj()
    base = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    return base.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (33, 40, 65), (1, 300, 40), (40, 300, 1), (2, 600, 3)])
def test_mm_dtypes(shape, dtype):
    m, k, n = shape
    both(torch.mm, make((m, k), dtype), make((k, n), dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
@pytest.mark.parametrize("layout", ["t", "slice", "step", "offset", "expand"])
def test_mm_strides(layout, dtype):
    views = {
        "t": lambda m, n: make((n, m), dtype).t(),
        "slice": lambda m, n: make((m, n + 9), dtype)[:, 4:4 + n],
        "step": lambda m, n: make((m * 2, n * 3), dtype)[::2, ::3],
        "offset": lambda m, n: make((m + 5, n), dtype)[5:],
        "expand": lambda m, n: make((1, n), dtype).expand(m, n),
    }
    plain = lambda m, n: make((m, n), dtype)  # noqa: E731
    view = views[layout]
    for first, second in [(view, plain), (plain, view), (view, view)]:
        both(torch.mm, first(19, 70), second(70, 37))


@pytest.mark.parametrize("dtype", FLOATS + [torch.int32, torch.complex64])
@pytest.mark.parametrize("batch", [1, 6])
def test_bmm(batch, dtype):
    both(torch.bmm, make((batch, 17, 20), dtype), make((batch, 20, 35), dtype))
    both(torch.bmm, make((batch, 20, 17), dtype).mT, make((batch, 35, 20), dtype).mT)
    both(torch.bmm, make((1, 17, 20), dtype).expand(batch, 17, 20), make((20, batch, 35), dtype).transpose(0, 1))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX)
@pytest.mark.parametrize("shape", [(3, 3, 3), (4, 4, 4), (8, 8, 8), (16, 16, 16), (5, 17, 9), (33, 13, 30), (2, 20, 9),
                                   (4, 1, 4), (1, 5, 3), (31, 1, 17), (1, 33, 30), (40, 1, 9), (1, 1, 5)])
def test_batches_of_small_matrices(shape, dtype):
    """Tiles that are whole and not, the last row of the last matrix, packed operands and scattered results."""
    m, n, k = shape
    a, b, c = make((7, m, k), dtype), make((7, k, n), dtype), make((7, m, n), dtype)
    alpha, beta = (2, 3) if dtype in INTEGERS else (0.5 - 1j, 2j) if dtype in COMPLEX else (0.5, -2.0)
    for first in (a, a.mT.contiguous().mT, make((7, m, 2 * k), dtype)[..., ::2]):
        for second in (b, b.mT.contiguous().mT, make((7, k, 2 * n), dtype)[..., ::2]):
            both(torch.bmm, first, second)
            both(torch.baddbmm, c, first, second, alpha=alpha, beta=beta)
    both(torch.baddbmm, c[:1, :1], a, b)
    both(torch.baddbmm, c[:, :, :1], a, b[:1].expand_as(b))
    spread = torch.zeros(7, m, 2 * n, dtype=dtype, device=device)
    torch.bmm(on_device(a), on_device(b), out=spread[..., ::2])
    assert_close(spread.cpu()[..., ::2], torch.bmm(a, b))
    assert (spread[..., 1::2] == 0).all()


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX)
@pytest.mark.parametrize("addend", [(21, 34), (34,), (21, 1), (1,), ()])
def test_addmm(addend, dtype):
    alpha, beta = (2, 3) if dtype in INTEGERS else (0.5, -2.0)
    both(torch.addmm, make(addend, dtype), make((21, 50), dtype), make((50, 34), dtype), alpha=alpha, beta=beta)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(1, 70, 40), (70, 1, 40), (3, 90, 50), (90, 3, 50), (67, 45, 38)])
def test_complex_layouts(shape, dtype):
    m, n, k = shape
    a, b, c = make((2, m, k), dtype), make((2, k, n), dtype), make((2, m, n), dtype)
    for first in (a, a.mT.contiguous().mT, make((2, m, 2 * k), dtype)[..., ::2], a.conj()):
        for second in (b, b.mT.contiguous().mT, make((2, k, 2 * n), dtype)[..., ::2]):
            both(torch.mm, first[1], second[1])
            both(torch.bmm, first, second)
            both(torch.baddbmm, c, first, second, alpha=0.5, beta=-2.0)
            both(torch.baddbmm, c.mT.contiguous().mT, first, second, beta=1j)
    both(torch.addmm, c[0, 0], a[0], b[0])
    turned = torch.zeros(n, m, dtype=dtype, device=device).mT
    torch.mm(on_device(a[0]), on_device(b[0]), out=turned)
    assert_close(turned.cpu(), torch.mm(a[0], b[0]))


def test_addmm_complex_scalars():
    both(torch.addmm, *[make((9, 9), torch.complex64) for _ in range(3)], alpha=1 + 2j, beta=0.5 - 1j)


@pytest.mark.parametrize("shape", [(4, 5), (5,)])
def test_beta_zero_ignores_nan(shape):
    nan = torch.full(shape, float("nan"))
    both(torch.addmm, nan, make((4, 6)), make((6, 5)), beta=0)
    both(torch.baddbmm, nan.expand(2, 4, 5).contiguous(), make((2, 4, 6)), make((2, 6, 5)), beta=0)
    both(torch.addmv, torch.full((4,), float("nan")), make((4, 6)), make((6,)), beta=0)


def test_in_place_and_out():
    a, b, c = make((13, 14)), make((14, 15)), make((13, 15))
    on = [t.to(device) for t in (a, b, c)]
    on[2].addmm_(on[0], on[1], alpha=2, beta=3)
    assert_close(on[2].cpu(), torch.addmm(c, a, b, alpha=2, beta=3))
    for make_out in (lambda d: torch.zeros(15, 13, device=d).t(), lambda d: torch.zeros(26, 30, device=d)[::2, ::2],
                     lambda d: torch.zeros(0, device=d)):
        expected, found = make_out("cpu"), make_out(device)
        torch.mm(a, b, out=expected)
        torch.mm(on[0], on[1], out=found)
        assert found.stride() == expected.stride()
        assert_close(found.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.complex128])
def test_vectors(dtype):
    matrix, vector, result = make((40, 70), dtype), make((70,), dtype), make((40,), dtype)
    both(torch.mv, matrix, vector)
    both(torch.mv, make((70, 40), dtype).t(), vector)
    both(torch.mv, matrix[:, ::2], make((70,), dtype)[::2])
    both(torch.addmv, result, matrix, vector, alpha=2, beta=3)
    both(torch.addmv, make((1,), dtype), matrix, vector)
    both(torch.dot, vector, make((70,), dtype))
    both(torch.vdot, vector, make((140,), dtype)[::2])
    both(torch.outer, vector, result)


def test_conjugates():
    a, b = make((8, 9), torch.complex64), make((8, 10), torch.complex64)
    both(torch.mm, a.mH, b)
    both(torch.mm, a.t(), b.conj())
    both(torch.addmm, make((9, 10), torch.complex64).conj(), a.mH, b)


def test_baddbmm_and_addbmm():
    a, b = make((3, 12, 13)), make((3, 13, 14))
    for addend in [(3, 12, 14), (12, 14), (14,), (3, 1, 14), (3, 12, 1), ()]:
        both(torch.baddbmm, make(addend), a, b, alpha=0.5, beta=2)
    for addend in [(12, 14), (14,), ()]:
        both(torch.addbmm, make(addend), a, b, alpha=0.5, beta=2)


@pytest.mark.parametrize("use_gelu", [False, True])
def test_addmm_activation(use_gelu):
    both(torch._addmm_activation, make((35,)), make((20, 30)), make((30, 35)), use_gelu=use_gelu)


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(m, k, n):
    both(torch.mm, make((m, k)), make((k, n)))
    both(torch.addmm, make((m, n)), make((m, k)), make((k, n)), beta=0.5)
    both(torch.addmm, make((n,)), make((m, k)), make((k, n)))
    both(torch.bmm, make((2, m, k)), make((2, k, n)))
    both(torch.bmm, make((0, m, k)), make((0, k, n)))
    both(torch.mv, make((m, k)), make((k,)))
    both(torch.dot, make((m,)), make((m,)))


def test_wide_sums():
    both(torch.mm, make((3, 5000)) / 8, make((5000, 4)))
    large = torch.full((2, 3), 2**31 - 5, dtype=torch.int64)
    both(torch.mm, large, large.t())


def test_int_mm():
    both(torch._int_mm, make((20, 32), torch.int8), make((32, 24), torch.int8))


def test_linear_and_its_gradient():
    layer, twin = torch.nn.Linear(30, 20), torch.nn.Linear(30, 20).to(device)
    twin.load_state_dict(layer.state_dict())
    x, gradient = make((4, 6, 30)), make((4, 6, 20))
    y = x.to(device).requires_grad_()
    x.requires_grad_()
    found, expected = twin(y), layer(x)
    assert_close(found.cpu(), expected)
    for a, b in zip(torch.autograd.grad(found, (y, twin.weight), gradient.to(device)),
                    torch.autograd.grad(expected, (x, layer.weight), gradient)):
        assert_close(a.cpu(), b)


def test_compositions():
    both(torch.matmul, make((2, 3, 4, 5)), make((5, 6)))
    both(torch.matmul, make((2, 1, 4, 5)), make((3, 5, 6)))
    both(lambda a, b: torch.einsum("bij,bkj->bik", a, b), make((3, 4, 5)), make((3, 6, 5)))
    both(lambda a, b: torch.tensordot(a, b, dims=2), make((3, 4, 5)), make((4, 5, 6)))


@pytest.mark.parametrize("call", [
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 5, device=d, dtype=torch.float64)),
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, device=d)),
    lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(3, 4, 5, device=d)),
    lambda d: torch.addmm(torch.ones(7, device=d), torch.ones(2, 3, device=d), torch.ones(3, 5, device=d)),
    lambda d: torch.dot(torch.ones(3, device=d), torch.ones(4, device=d)),
    lambda d: torch.dot(torch.ones(3, 1, device=d), torch.ones(3, device=d)),
    lambda d: torch.mm(torch.ones(2, 3, device=d) > 0, torch.ones(3, 5, device=d) > 0),
    lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 5, device=d), out=torch.ones(2, 5, device=d).int()),
])
def test_errors_are_pytorchs(call):
    with pytest.raises(Exception) as expected:
        call("cpu")
    with pytest.raises(type(expected.value)) as found:
        call(device)
    assert str(found.value).split(",")[0].replace("ocl", "cpu") in str(expected.value) or \
        "not implemented" in str(found.value)


def test_mixed_devices():
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(torch.ones(2, 3, device=device), torch.ones(3, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n, k", [(1, 300), (7, 128), (33, 127), (258, 391), (70, 8321)])
def test_one_row_along_k(device, dtype, n, k):
    """A linear layer of one sample: k of no whole steps, columns of no whole fours, parts of a matrix."""
    torch.manual_seed(n)
    x, whole = torch.randn(1, k).to(dtype), torch.randn(n + 1, k + 3).to(dtype)
    w = whole[1:, 2:k + 2]
    y = torch.nn.functional.linear(x.to(device), whole.to(device)[1:, 2:k + 2])
    reference = x.double() @ w.double().t()
    error = 2 * torch.finfo(dtype).eps * reference.abs() + 1e-6 * (x.double().abs() @ w.double().abs().t())
    assert ((y.cpu().double() - reference).abs() <= error).all()
