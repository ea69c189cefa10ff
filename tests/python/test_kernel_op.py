"""torch_ocl.kernel_op: kernels in OpenCL C as operators, with gradients, torch.func and torch.compile."""
import pytest
import torch

import torch_ocl
from scale_kernel import ANY_TYPE as SCALE

# Sums of rows, and their largest element's place.
ROWS = """
__kernel void rows(__global const double* x, ulong x_offset, __global double* total, ulong total_offset,
                   __global long* place, ulong place_offset, int length)
{
    x += x_offset, total += total_offset, place += place_offset;
    const int row = get_global_id(0);
    double sum = 0;
    long best = 0;
    for (int i = 0; i < length; ++i) {
        sum += x[row * length + i];
        if (x[row * length + i] > x[row * length + best])
            best = i;
    }
    total[row] = sum;
    place[row] = best;
}"""
ADD_TO = """
__kernel void add_to(__global float* x, ulong x_offset, float number)
{
    x[x_offset + get_global_id(0)] += number;
}"""


@pytest.fixture(scope="module")
def scale():
    operator = torch_ocl.kernel_op(
        "torch_ocl_tests::scale", SCALE, types={"T": "x"}, values={"count": lambda a: a.x.numel()},
        backward=lambda a, dy: {"x": operator(dy, a.factor)}, vmap="elementwise")
    return operator


@pytest.fixture(scope="module")
def rows():
    return torch_ocl.kernel_op(
        "torch_ocl_tests::rows", ROWS, values={"length": lambda a: a.x.shape[-1]},
        outputs={"total": lambda a: a.x.new_empty(a.x.shape[:-1]),
                 "place": lambda a: a.x.new_empty(a.x.shape[:-1], dtype=torch.int64)},
        backward=lambda a, dtotal, dplace: {"x": dtotal.unsqueeze(-1).expand(a.x.shape)})


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64))
def test_dtypes_and_layouts(device, scale, dtype):
    x = torch.randn(6, 10).mul(10).to(dtype)
    torch.testing.assert_close(scale(x.to(device), 3.0).cpu(), x * 3)
    torch.testing.assert_close(scale(x.to(device).t()[::2], factor=2).cpu(), x.t()[::2] * 2)
    assert scale(x.to(device)[:0], 3.0).shape == (0, 10)


def test_gradients(device, scale, rows):
    x = torch.randn(4, 5, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: scale(x.t(), 2.5), x)
    assert torch.autograd.gradgradcheck(lambda x: scale(x, 2.5) ** 2, x)
    assert torch.autograd.gradcheck(lambda x: rows(x)[0], x)
    assert not rows(x)[1].requires_grad


def test_opcheck(device, scale, rows):
    """PyTorch's own checks of an operator: schema, results known ahead, gradients, dispatch when traced."""
    x = torch.randn(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    for operator, args in ((scale, (x, 2.0)), (rows, (x,))):
        torch.library.opcheck(operator.definition, args)


def test_opcheck_of_a_gradient_in_the_wrong_place(device):
    """A torch.autograd.Function at the device's key is found; without gradients there is nothing to find."""
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone().mul_(2)

        @staticmethod
        def backward(context, grad):
            return grad * 2

    with torch.library._scoped_library("torch_ocl_tests", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", Twice.apply, "PrivateUse1")
        twice = torch.ops.torch_ocl_tests.twice.default
        with pytest.raises(torch.testing._internal.optests.OpCheckError, match="no kernel at an autograd key"):
            torch.library.opcheck(twice, (torch.ones(3, device=device, requires_grad=True),),
                                  test_utils="test_autograd_registration")


def test_transforms(device, scale, rows):
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    on_device = x.to(device)
    torch.testing.assert_close(torch.func.vmap(lambda x: scale(x, 2.0), in_dims=1)(on_device).cpu(),
                               2 * x.transpose(0, 1))
    total, place = torch.func.vmap(rows, in_dims=1, out_dims=(1, 0))(on_device)
    torch.testing.assert_close(total.cpu(), x.sum(-1))
    assert torch.equal(place.cpu(), x.argmax(-1).t())
    gradient = torch.func.vmap(torch.func.grad(lambda x: (scale(x, 3.0) ** 2).sum() + rows(x)[0].sum()))(on_device)
    torch.testing.assert_close(gradient.cpu(), 18 * x + 1)


def test_compiled_as_one_graph(device, scale):
    @torch.compile(fullgraph=True, dynamic=True)
    def step(x):
        return (scale(x * 2, 1.5) + 1).sum()

    for size in (7, 9):
        x = torch.randn(size, 3, device=device, requires_grad=True)
        result = step(x)
        torch.testing.assert_close(result, (x * 3 + 1).sum())
        result.backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 3))


def test_changes_in_place(device):
    add_to = torch_ocl.kernel_op("torch_ocl_tests::add_to", ADD_TO, mutates="x")
    x = torch.zeros(4, 6, device=device)
    assert add_to(x[:, ::2], 2.0) is None
    add_to(x, 1.0)
    torch.compile(lambda x: add_to(x, 0.5), fullgraph=True)(x)
    torch.testing.assert_close(x.cpu(), torch.tensor([3.5, 1.5] * 12).reshape(4, 6))


def test_complains(device, scale, rows):
    x = torch.randn(4, device=device)
    with pytest.raises(RuntimeError, match="scale, argument x: expected a tensor on an ocl device, got one on cpu"):
        scale(x.cpu(), 2.0)
    with pytest.raises(TypeError, match="no type of OpenCL C for torch.complex64"):
        scale(x.to(torch.complex64), 2.0)
    with pytest.raises(TypeError, match="argument x: expected a tensor of dtype Double, got Float"):
        rows(x)
    for options, message in (({"values": {"size": 1}}, "values='size': expected one of factor, count"),
                             ({"types": {"T": "y"}}, "types='y': expected one of x"),
                             ({"mutates": "x"}, "mutates='x': expected one of y"),
                             ({"vmap": "all"}, "vmap is"), ({"outputs": {"x": 1}}, "outputs='x': expected one of y")):
        with pytest.raises(ValueError, match=message):
            torch_ocl.kernel_op("torch_ocl_tests::scale2", SCALE, "scale", **{"types": {"T": "x"}, **options})
    with pytest.raises(ValueError, match="namespace::name"):
        torch_ocl.kernel_op("scale", SCALE, types={"T": "x"})
    with pytest.raises(ValueError, match="no `__kernel void other"):
        torch_ocl.kernel_op("torch_ocl_tests::other", SCALE)
    broken = torch_ocl.kernel_op("torch_ocl_tests::broken", SCALE.replace("load_T(x", "load_T(z"), "scale",
                                 types={"T": "x"}, values={"count": 4})
    with pytest.raises(RuntimeError, match=r"scale:8: store_T\(y, i, "):
        broken(x, 1.0)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch_ocl.kernel_op("torch_ocl_tests::without", SCALE, "scale", types={"T": "x"}, values={"count": 4})(
            x.requires_grad_(), 1.0).sum().backward()
    wrong = torch_ocl.kernel_op("torch_ocl_tests::wrong", SCALE, "scale", types={"T": "x"}, values={"count": 4},
                                backward=lambda a, dy: {"x": dy[0]})
    with pytest.raises(ValueError, match=r"a gradient of x of shape \(\), expected \(4,\)"):
        wrong(x, 1.0).sum().backward()
