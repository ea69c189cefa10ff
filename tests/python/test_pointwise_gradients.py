"""Gradients of torch_ocl.pointwise_kernel, derived and given; torch.func and torch.compile."""
import pytest
import torch

from torch_ocl import pointwise_kernel

# Functions with known derivatives, by what their arguments may be; a sum of them is one kernel.
FUNCTIONS = {
    "any": ["exp(x0)", "exp2(x0)", "expm1(x0)", "sin(x0)", "cos(x1)", "tanh(x0)", "tanh_of(x1)", "sinh(x0)", "cosh(x1)",
            "asinh(x0)", "atan(x0)", "erf(x0)", "erfc(x1)", "fabs(x0)", "cbrt(x0)", "sinpi(x0)", "cospi(x1)",
            "sigmoid(x0)", "log_sigmoid(x1)", "normal_cdf(x0)", "sinc(x0)", "x0 / (2 + x1 * x1)", "-x0 * x1"],
    "gelus": ["gelu(x0)", "gelu_tanh(x0)", "softplus(x0, 1.5, 20.0)", "log_add_exp(x0, x1)"],
    "two": ["fma(x0, x1, x0)", "mad(x1, x1, x0)", "mix(x0, x1, x0)", "lerp(x0, x1, 0.3)", "hypot(x0, x1)",
            "atan2(x0, x1)",
            "fmax(x0, x1)", "minimum(x0, x1)", "fdim(x0, x1)", "clamp(x0, -0.5, x1)", "remainder_of(x0, 2.0)",
            "copysign(x0, x1)", "true_divide(x0, x1)", "degrees(x0) + radians(x1)", "floor(x0) * x1", "(T)x0 * 2",
            "(x0 > x1 ? x0 * x1 : x1)"],
    "positive": ["log(x0)", "log2(x0)", "log10(x0)", "log1p(x0)", "sqrt(x0)", "rsqrt(x1)", "pow(x0, x1)",
                 "powr(x1, x0)",
                 "pown(x0, 3)", "acosh(1.5 + x0)", "x_log_y(x0, x1)", "x_log1p_y(x1, x0)", "asin(x0 / 8)",
                 "acos(x1 / 8)",
                 "atanh(x0 / 8)", "tan(x0 / 8)", "fmod(x0, x1)"],
}


def numbers(device, *shape, **options):
    return torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True, **options)


@pytest.mark.parametrize("group", FUNCTIONS)
def test_known_functions(device, group):
    code = "y0 = " + " +\n".join(f"{0.3 + 0.1 * k:.1f} * ({f})" for k, f in enumerate(FUNCTIONS[group])) + ";"
    x = [torch.rand(3, 2, dtype=torch.float64) * 2 + 0.5 for _ in range(2)]
    if group != "positive":
        x = [x[0] - 1.4, x[1] - 1.3]
    x = [each.to(device).requires_grad_() for each in x]
    assert torch.autograd.gradcheck(pointwise_kernel(code), x)


STATEMENTS = """
T t = x0 * x1, u;
if (t > 0) {
    y0 = sigmoid(t) * w0;   // the first branch
    u = 2;
} else
    y0 = t / (2 + x1 * x1), u = t;
t *= u;
y1 = t - x0;
y1 += y0 * w1;
"""


def test_statements_branches_and_broadcasting(device):
    kernel = pointwise_kernel(STATEMENTS)
    a, b = numbers(device, 4, 3), numbers(device, 3)
    def f(a, b):
        return kernel(a.t(), b.unsqueeze(1), scalars=[2.0, -1.5])

    assert torch.autograd.gradcheck(f, (a, b))
    assert torch.autograd.gradgradcheck(f, (a, b))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_dtypes(device, dtype):
    x, y = torch.randn(6, 5).to(dtype), torch.randn(5)
    reference = [x.float().clone().requires_grad_(), y.clone().requires_grad_()]
    ours = [x.to(device).requires_grad_(), y.to(device).requires_grad_()]
    positive = torch.randint(0, 2, (5,))
    out = pointwise_kernel("y0 = tanh(x0) * x1 * x2;")(*ours, positive.to(device))
    expected = torch.tanh(reference[0]) * reference[1] * positive
    torch.testing.assert_close(out.cpu(), expected)
    out.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours[0].grad.cpu(), reference[0].grad.to(dtype))
    torch.testing.assert_close(ours[1].grad.cpu(), reference[1].grad)


def test_reductions(device):
    a, b = numbers(device, 4, 3, 2), numbers(device, 3, 1)
    moments = pointwise_kernel("y0 = x0; y1 = x0 * x0 * x1;", reduce="a + b")
    assert torch.autograd.gradcheck(lambda a, b: moments(a, b, dim=(0, 2)), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: moments(a, b, dim=(0, 2)), (a, b))
    for reduce, identity in (("a > b ? a : b", "-INFINITY"), ("fmin(a, b)", "INFINITY")):
        extreme = pointwise_kernel("y0 = x0 * x1;", reduce=reduce, identity=identity)
        assert torch.autograd.gradcheck(lambda a, b: extreme(a, b, dim=1, keepdim=True), (a, b))
    tied = torch.ones(4, device=device, requires_grad=True)
    pointwise_kernel("y0 = x0;", reduce="a > b ? a : b", identity="-INFINITY")(tied).backward()
    torch.testing.assert_close(tied.grad.cpu(), torch.full((4,), 0.25))
    product = pointwise_kernel("y0 = x0;", reduce="a * b", identity="1")(a)
    with pytest.raises(RuntimeError, match="of a reduction by `a . b`"):
        product.backward()


def test_gradients_of_the_caller(device):
    a, b = numbers(device, 4, 3), numbers(device, 3)
    kernel = pointwise_kernel("y0 = x0;\nfor (int i = 0; i < 2; ++i)\n    y0 *= x1;\ny1 = x0;",
                              gradient="dx0 = dy0 * x1 * x1 + dy1; dx1 = 2 * dy0 * y0 / x1;")
    assert torch.autograd.gradcheck(lambda a, b: kernel(a, b), (a, b))
    with pytest.raises(RuntimeError, match="does not assign dx1"):
        pointwise_kernel("y0 = x0 * x1;", gradient="dx0 = dy0 * x1;")(a, b).sum().backward()
    with pytest.raises(ValueError, match="must assign dx0"):
        pointwise_kernel("y0 = x0;", gradient="y0 = 1;")


def test_transforms(device):
    a, b = torch.randn(4, 3, 2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    on_device = a.to(device), b.to(device)
    kernel = pointwise_kernel("y0 = x0 * exp(x1);")
    total = pointwise_kernel("y0 = x0 * exp(x1);", reduce="a + b")
    mapped = torch.func.vmap(kernel, in_dims=(1, 0))(*on_device)
    torch.testing.assert_close(mapped.cpu(), torch.func.vmap(lambda x, y: x * y.exp(), in_dims=(1, 0))(a, b))
    gradient = torch.func.vmap(torch.func.grad(lambda x, y: total(x, y, dim=0).sum()), in_dims=(1, 0))(*on_device)
    torch.testing.assert_close(gradient.cpu(), b.exp()[:, None, None].expand(3, 4, 2))
    second = torch.func.jacrev(torch.func.jacrev(lambda x: total(x, x)))(on_device[1])
    torch.testing.assert_close(second.cpu(), torch.func.hessian(lambda x: (x * x.exp()).sum())(b))


def test_compiled_as_one_graph(device):
    kernel = pointwise_kernel("y0 = sigmoid(x0) * x1;\ny1 = x0 - x1;")
    total = pointwise_kernel("y0 = x0 * x0;", reduce="a + b")

    def step(a, b):
        x, y = kernel(a * 2, b)
        return total(x + y, dim=0).sum()

    a, b = torch.randn(5, 4, device=device), torch.randn(4, device=device)
    eager = [t.clone().requires_grad_() for t in (a, b)]
    step(*eager).backward()
    compiled = [t.clone().requires_grad_() for t in (a, b)]
    torch.compile(step, fullgraph=True)(*compiled).backward()
    for ours, expected in zip(compiled, eager):
        torch.testing.assert_close(ours.grad, expected.grad)


def test_errors_name_the_line(device):
    x = torch.randn(3, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"mystery(.|\n)*pointwise_kernel:2: mystery\(x0\);"):
        pointwise_kernel("y0 = x0 +\nmystery(x0);")(x)
    for code, message in (("y0 = x0;\nfor (int i = 0; i < 3; ++i) y0 += x0;", "`for \\(`, line 2: `for"),
                          ("y0 =\n  lgamma(x0);", "the function lgamma, line 2: `lgamma"),
                          ("y0 = 0;\n#define A 1\n", "a preprocessor line, line 2")):
        with pytest.raises(RuntimeError, match=f"no gradient is derived from .*{message}.*gradient="):
            pointwise_kernel(code)(x).sum().backward()
    with pytest.raises(RuntimeError, match="out=... does not support automatic differentiation"):
        pointwise_kernel("y0 = x0;")(x, out=torch.empty(3, device=device))
    with pytest.raises(RuntimeError, match="x1: expected a tensor on an ocl device, got one on cpu"):
        pointwise_kernel("y0 = x0 + x1;")(x, torch.ones(3))
    with pytest.raises(TypeError, match="x1: expected a tensor, got int"):
        pointwise_kernel("y0 = x0 + x1;")(x, 3)
