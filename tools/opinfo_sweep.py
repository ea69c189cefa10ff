#!/usr/bin/env python3
"""Run PyTorch's own operator descriptions (OpInfo) on the ocl device and compare with the CPU.

For each operator and dtype: every sample input (or --samples of them), forward and, for floating dtypes, the gradient
of a random projection. Tolerances are OpInfo's own. The fallback policy is 'error' unless --allow-fallback, so what is
listed as passed ran on the device. Writes one JSON line an operator and dtype with --json.

    tools/opinfo_sweep.py add softmax --dtype float32
"""
import argparse
import collections
import json
import sys
import traceback
import warnings

import torch
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

RANDOM = ("dropout", "rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "cauchy", "geometric",
          "log_normal", "rrelu", "empty", "fractional_max_pool")


def to_device(value, device):
    def move(x):
        if isinstance(x, torch.Tensor):
            moved = x.detach().to(device)
            if moved.layout == torch.strided and x.numel() and not x.is_contiguous():
                strided = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=device)
                if torch._debug_has_internal_overlap(x) != 1:
                    moved = strided.copy_(moved)
            return moved.requires_grad_(x.requires_grad)
        return torch.device(device) if isinstance(x, torch.device) else x
    return tree_map(move, value)


def tensors(value):
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def tolerance(op, dtype):
    """OpInfo's override for comparisons between devices, else assert_close's defaults."""
    for info in op.decorators:
        if getattr(info, "test_name", None) not in (None, "test_compare_cpu", "test_noncontiguous_samples"):
            continue
        for decorator in getattr(info, "decorators", [info]):
            known = getattr(decorator, "d", {})
            if hasattr(known.get(dtype), "rtol"):
                return dict(rtol=known[dtype].rtol, atol=known[dtype].atol)
    return {}


def run_sample(op, sample, gradient):
    """(outputs, gradients of the tensors that require them)."""
    result = op(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad:
        result = sample.output_process_fn_grad(result) if gradient else result
    outputs = tensors(result)
    if not gradient:
        return outputs, []
    inputs = [x for x in tensors((sample.input, sample.args, sample.kwargs)) if x.requires_grad]
    differentiable = [y for y in outputs if y.requires_grad]
    if not inputs or not differentiable:
        return outputs, []
    generator = torch.Generator().manual_seed(0)
    seeds = [torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype).to(y.device)
             for y in differentiable]
    return outputs, list(torch.autograd.grad(differentiable, inputs, seeds, allow_unused=True))


def moved(sample, device):
    copy = type(sample)(to_device(sample.input, device), args=to_device(sample.args, device),
                        kwargs=to_device(sample.kwargs, device))
    copy.output_process_fn_grad = sample.output_process_fn_grad
    return copy


def check(op, dtype, device, limit):
    gradient = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    random = any(word in op.name for word in RANDOM)
    for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
        if i >= limit:
            break
        want = run_sample(op, sample, gradient)
        got = run_sample(op, moved(sample, device), gradient)
        for mine, native in zip(got[0] + got[1], want[0] + want[1]):
            if native is None and mine is None:
                continue
            assert mine.device.type == "ocl" or native.device.type != "cpu" or mine.device == native.device
            mine = mine.detach().cpu()
            if random:
                assert mine.shape == native.shape and mine.dtype == native.dtype
            else:
                assert_close(mine, native.detach(), equal_nan=True, **tolerance(op, dtype))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="names (all by default)")
    parser.add_argument("--dtype", action="append", default=[])
    parser.add_argument("--samples", type=int, default=1 << 30)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--allow-fallback", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--start", default="", help="skip operators before this name")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.ocl.set_fallback_policy("allow" if arguments.allow_fallback else "error")
    dtypes = [getattr(torch, name) for name in arguments.dtype] or [torch.float32]
    counts = collections.Counter()
    out = open(arguments.json, "w") if arguments.json else None
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if arguments.operators and op.name not in arguments.operators and name not in arguments.operators:
            continue
        if name < arguments.start or op.name.startswith(("sparse", "to_sparse")):
            continue
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                check(op, dtype, arguments.device, arguments.samples)
                outcome, why = "passed", ""
            except Exception as error:  # noqa: BLE001: every failure is a row of the report
                text = str(error)
                outcome = "fallback" if "fallback" in text.lower() else "failed"
                why = f"{type(error).__name__}: " + text.strip().replace("\n", " ")[:300]
                if arguments.operators:
                    traceback.print_exc()
            counts[outcome] += 1
            if outcome != "passed" or arguments.operators:
                print(f"{outcome:8} {name} {str(dtype)[6:]}  {why}", flush=True)
            if out:
                print(json.dumps(dict(operator=name, dtype=str(dtype)[6:], outcome=outcome, why=why)), file=out,
                      flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    sys.exit(bool(counts["failed"]))


if __name__ == "__main__":
    main()
