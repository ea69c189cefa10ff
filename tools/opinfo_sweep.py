#!/usr/bin/env python3
"""Run PyTorch's own operator descriptions (OpInfo) on the ocl device and compare with the CPU.

For each operator and dtype that the CPU has: every sample input (or --samples of them, evenly spread), forward and, for
floating dtypes, the gradient of a random projection. Tolerances are OpInfo's own; where the CPU itself is inexact, no
further from the result in a wider type. The fallback policy is 'error' unless --allow-fallback, so what is listed as
passed ran on the device. An entry that the CPU refuses counts as passed where the device refuses it as well. Writes one
JSON line an operator and dtype with --json. The last line says how many entries of OpInfo are native: with no fallback
in any dtype.

    tools/opinfo_sweep.py add softmax --dtype float32
    tools/opinfo_sweep.py --samples 2 --dtype float32 --dtype float16 --dtype int64 --dtype bool
"""
import argparse
import collections
import json
import sys
import traceback
import warnings
from pathlib import Path

import torch
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from opinfo import as_exact_as_cpu, published_tolerance  # noqa: E402

RANDOM = ("dropout", "rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "cauchy", "geometric",
          "log_normal", "rrelu", "empty", "fractional_max_pool", "multi_head_attention_forward")
LAST = 1 << 30


def to_device(value, device):
    """With the memory around views and their strides: some operators look beyond their tensor's elements."""
    def move(x):
        if isinstance(x, torch.Tensor):
            moved = x.detach().to(device)
            if x.layout == torch.strided and x.numel() and not (x.is_conj() or x.is_neg()):
                elements = x.untyped_storage().nbytes() // x.element_size()
                memory = torch.as_strided(x.detach(), (elements,), (1,), 0)
                moved = memory.to(device).as_strided(x.size(), x.stride(), x.storage_offset())
            return moved.requires_grad_(x.requires_grad)
        return torch.device(device) if isinstance(x, torch.device) else x
    return tree_map(move, value)


def tensors(value):
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


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


def moved(op, sample, device):
    copy = type(sample)(to_device(sample.input, device), args=to_device(sample.args, device),
                        kwargs=to_device(sample.kwargs, device))
    if op.name == "tensor_split":   # wants its places on the CPU, of every device
        copy.args, copy.kwargs = sample.args, sample.kwargs
    copy.output_process_fn_grad = sample.output_process_fn_grad
    return copy


def is_random(op, sample):
    dropout = [sample.kwargs.get(name, 0) for name in ("dropout_p", "p", "dropout")]
    return any(word in op.name for word in RANDOM) or any(isinstance(p, float) and p > 0 for p in dropout)


def as_rounded(mine, native):
    """Whether sums that cancel explain it: 64 roundings of the largest number."""
    if not (native.is_floating_point() or native.is_complex()) or not torch.isfinite(native).all():
        return False
    return bool((mine - native).abs().max() <= 64 * torch.finfo(native.dtype).eps * native.abs().max())


def compare(op, sample, got, want, random):
    for mine, native in zip(got, want):
        if mine is None and native is None:
            continue
        assert mine.device.type == "ocl" or native.device.type != "cpu" or mine.device == native.device
        mine, native = mine.detach().cpu(), native.detach()
        if native.layout not in (torch.strided, torch.jagged):
            mine, native = mine.to_dense(), native.to_dense()
        if random:
            assert mine.shape == native.shape and mine.dtype == native.dtype
            continue
        try:
            assert_close(mine, native, equal_nan=True, **published_tolerance(op, native.dtype))
        except AssertionError:
            if not as_rounded(mine, native) and (len(got) > 1 or not as_exact_as_cpu(op, sample, mine, native)):
                raise


def check(op, dtype, device, limit):
    """Raises what is wrong; returns what became of the samples."""
    gradient = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradient))
    refused = 0
    for sample in samples[::max(1, len(samples) // limit)]:
        try:
            want = run_sample(op, sample, gradient)
        except Exception as refusal:  # noqa: BLE001: the device has to refuse it as well
            refused += 1
            try:
                run_sample(op, moved(op, sample, device), gradient)
            except type(refusal):
                continue
            raise AssertionError(f"the CPU refuses it: {refusal}") from None
        got = run_sample(op, moved(op, sample, device), gradient)
        random = is_random(op, sample)
        with torch.no_grad():
            compare(op, sample, got[0], want[0], random)
            compare(op, sample, [None, *got[1]], [None, *want[1]], random)
    return "refused" if refused and refused == len(samples) else "passed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="names (all by default)")
    parser.add_argument("--dtype", action="append", default=[], help="may be repeated (default: float32)")
    parser.add_argument("--samples", type=int, default=LAST)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--allow-fallback", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--start", default="", help="skip operators before this name")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.ocl.set_fallback_policy("allow" if arguments.allow_fallback else "error")
    dtypes = [getattr(torch, name) for name in arguments.dtype] or [torch.float32]
    counts = collections.Counter()
    native = {}
    out = open(arguments.json, "w") if arguments.json else None
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if arguments.operators and op.name not in arguments.operators and name not in arguments.operators:
            continue
        if name < arguments.start:
            continue
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            why = ""
            try:
                outcome = check(op, dtype, arguments.device, arguments.samples)
            except Exception as error:  # noqa: BLE001: every failure is a row of the report
                text = str(error)
                outcome = "fallback" if "fallback" in text.lower() else "failed"
                why = f"{type(error).__name__}: " + text.strip().replace("\n", " ")[:300]
                if arguments.operators:
                    traceback.print_exc()
            counts[outcome] += 1
            native[name] = native.get(name, True) and outcome != "fallback"
            if outcome != "passed" or arguments.operators:
                print(f"{outcome:8} {name} {str(dtype)[6:]}  {why}", flush=True)
            if out:
                print(json.dumps(dict(operator=name, dtype=str(dtype)[6:], outcome=outcome, why=why)), file=out,
                      flush=True)
    print("operators and dtypes:", ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    print(f"{sum(native.values())} of {len(native)} entries native or refused as the CPU refuses them")
    sys.exit(bool(counts["failed"]))


if __name__ == "__main__":
    main()
