"""Runs PyTorch's own sample inputs of an operator on the device and compares with the CPU."""
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

# Every operator is tested in float32 and in two of these, in turn: together the operators go through all of them, and
# the programs built stay few. Complex numbers come more often: they have formulas of their own.
IN_TURN = (torch.float16, torch.complex64, torch.int64, torch.float64, torch.complex64, torch.bool, torch.bfloat16,
           torch.int32, torch.complex64, torch.uint8)


def cases(names):
    """(OpInfo, dtype) for every operator of those names; dtypes that PyTorch's CPU supports."""
    result = []
    for turn, op in enumerate(op for op in op_db if op.name in names):
        others = [dtype for dtype in IN_TURN if op.supports_dtype(dtype, "cpu")]
        chosen = dict.fromkeys(others[(2 * turn + k) % len(others)] for k in range(2)) if others else ()
        result += [(op, dtype) for dtype in (torch.float32, *chosen) if op.supports_dtype(dtype, "cpu")]
    return result


def case_id(case):
    op, dtype = case
    return f"{op.formatted_name}-{str(dtype)[6:]}"


def move(value, device):
    """Tensors to the device with their strides, whatever holds them."""
    def one(leaf):
        if not isinstance(leaf, torch.Tensor):
            return torch.device(device) if isinstance(leaf, torch.device) else leaf
        return leaf.detach().to(device)
    return tree_map(one, value)


def check(op, dtype, device, samples=6):
    """Compares up to `samples` sample inputs, spread over those that there are."""
    inputs = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    for sample in inputs[::max(1, len(inputs) // samples)]:
        arguments = (sample.input, sample.args, sample.kwargs)
        expected = op(sample.input, *sample.args, **sample.kwargs)
        first, rest, named = move(arguments, device)
        actual = op(first, *rest, **named)
        try:
            torch.testing.assert_close(move(actual, "cpu"), expected, equal_nan=True, **published_tolerance(op, dtype))
        except AssertionError as error:
            if not as_exact_as_cpu(op, sample, move(actual, "cpu"), expected):
                raise AssertionError(f"{op.formatted_name}({describe(arguments)}): {error}") from None


def check_gradients(op, device, dtype=torch.float64, samples=6):
    """Compares the gradients of up to `samples` sample inputs, with the same random gradient of every output."""
    inputs = list(op.sample_inputs("cpu", dtype, requires_grad=True))
    for sample in inputs[::max(1, len(inputs) // samples)]:
        arguments = (sample.input, sample.args, sample.kwargs)
        expected = gradients(op, sample, arguments)
        actual = gradients(op, sample, tree_map(
            lambda leaf: move(leaf, device).requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor)
            else move(leaf, device), arguments))
        try:
            torch.testing.assert_close(move(actual, "cpu"), expected, equal_nan=True, **published_tolerance(op, dtype))
        except AssertionError as error:
            raise AssertionError(f"gradient of {op.formatted_name}({describe(arguments)}): {error}") from None


def gradients(op, sample, arguments):
    first, rest, named = arguments
    result = op(first, *rest, **named)
    if sample.output_process_fn_grad:
        result = sample.output_process_fn_grad(result)
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    inputs = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not outputs or not inputs:
        return []
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype).to(leaf.device) for leaf in outputs]
    return [leaf.detach() if leaf is not None else None
            for leaf in torch.autograd.grad(outputs, inputs, directions, allow_unused=True)]


def published_tolerance(op, dtype):
    """What PyTorch's own description of the operator allows where values are compared (complex powers, say); else the
    defaults of assert_close."""
    for info in op.decorators:
        if getattr(info, "test_name", None) in ("test_compare_cpu", "test_reference_numerics",
                                                      "test_reference_1d", "test_reference_nd"):
            for override in info.decorators:
                tolerance = getattr(override, "d", {}).get(dtype)
                if hasattr(tolerance, "rtol"):
                    return dict(rtol=tolerance.rtol, atol=tolerance.atol)
                if isinstance(tolerance, float):   # of an absolute error only
                    return dict(rtol=RELATIVE.get(dtype, 1e-7), atol=tolerance)
    return {}


WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64,
         torch.complex64: torch.complex128}


def as_exact_as_cpu(op, sample, actual, expected):
    """Where the CPU itself is inexact: no further from the result in a wider type than the CPU is, or than
    tolerated."""
    if not isinstance(actual, torch.Tensor) or actual.dtype not in WIDER or actual.shape != expected.shape:
        return False

    def widen(value):
        return tree_map(lambda leaf: leaf.to(WIDER.get(leaf.dtype, leaf.dtype)) if isinstance(leaf, torch.Tensor)
                        else leaf, value)
    exact = op(widen(sample.input), *widen(sample.args), **widen(sample.kwargs))
    if exact.dtype != WIDER[actual.dtype]:
        return False
    close = torch.isclose(actual, exact.to(actual.dtype), rtol=RELATIVE[actual.dtype], atol=1e-5, equal_nan=True)
    return bool((close | ((actual - exact).abs() <= (expected - exact).abs())).all())


RELATIVE = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6, torch.complex64: 1.3e-6}


def describe(value):
    return tree_map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else leaf, value)
