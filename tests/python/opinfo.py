"""Runs PyTorch's own sample inputs of an operator on the device and compares with the CPU."""
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

# One dtype of every kind; the C++ tests and the casts test the others.
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool,
          torch.complex64)


def cases(names, dtypes=DTYPES):
    """(OpInfo, dtype) for every operator of those names and every dtype that PyTorch's CPU supports."""
    return [(op, dtype) for op in op_db if op.name in names and (op.variant_test_name or True)
            for dtype in dtypes if op.supports_dtype(dtype, "cpu")]


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
        torch.testing.assert_close(move(actual, "cpu"), expected, equal_nan=True, msg=lambda text: (
            f"{op.formatted_name}({describe(arguments)}): {text}"))


def describe(value):
    return tree_map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else leaf, value)
