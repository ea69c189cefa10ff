"""Products of int8 matrices, a session of one MatMulInteger with constant weights, against ONNX Runtime's, each in a
process of its own, in turns; and torch._int_mm, whose weights change, against float32 on the same device. Medians of
milliseconds, and theirs / ours (above 1 we are faster).

    python benchmarks/integer_matmul.py [--rounds 9] [--only 512] [--json results.json]
"""
import os
import tempfile
from pathlib import Path

import numpy
import onnx
import torch
from onnx import TensorProto, helper

import onnx_engines
from common import Results, interleave, median_ms, parser

SHAPES = [(1, 1024, 1024), (8, 1024, 1024), (64, 1024, 1024), (512, 1024, 1024), (512, 768, 3072), (4096, 4096, 4096)]


def model(weights):
    k, n = weights.shape
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["m", k])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, ["m", n])],
                              [onnx.numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def sessions(x, weights, rounds):
    """Turns of both engines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.onnx"
        path.write_bytes(model(weights))
        threads = len(os.sched_getaffinity(0))
        names = ("onnxruntime", "clprim")
        with onnx_engines.started({name: (name, path, [x], threads) for name in names}) as engines:
            numpy.testing.assert_array_equal(*(engine.results()[0] for engine in engines.values()))
            return onnx_engines.in_turns(engines, rounds, seconds=0.2, pause=0.3)


def products(x, weights, options):
    """Seconds of torch._int_mm and of the same product in float32."""
    m, k = x.shape
    a = torch.from_numpy(x.astype(numpy.int16) - 128).to(torch.int8).to(options.device)
    b = torch.from_numpy(weights).to(options.device)
    fa, fb = a.float(), b.float()
    calls = max(1, min(20, int(2e8 / (m * k * b.shape[1]))))

    def repeated(run):
        for _ in range(calls):
            run()

    times = interleave({"_int_mm": (lambda: repeated(lambda: torch._int_mm(a, b)), options.device),
                        "float32": (lambda: repeated(lambda: torch.mm(fa, fb)), options.device)},
                       options.rounds, pause=0.01)
    return {name: [seconds / calls for seconds in values] for name, values in times.items()}


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--only", default="", help="shapes whose line contains this")
    options = arguments.parse_args()
    results = Results(options)
    random = numpy.random.default_rng(0)
    for m, k, n in SHAPES:
        name = f"{m:5d} x {k:5d} x {n:5d}"
        if options.only not in name:
            continue
        # Weights of seven bits: ONNX Runtime's sums of eight saturate on processors without VNNI.
        weights = random.integers(-64, 64, (k, n), dtype=numpy.int8)
        x = random.integers(0, 256, (m, k), dtype=numpy.uint8)
        turns = sessions(x, weights, options.rounds)
        times = products(x, weights, options)
        ms = onnx_engines.median_ms(turns) | {key: median_ms(value) for key, value in times.items()}
        text = "  ".join(f"{key} {value:8.3f} ms" for key, value in ms.items())
        results.add(f"{name}  {text}  onnxruntime / clprim {onnx_engines.ratio(turns, 'onnxruntime', 'clprim'):5.2f}  "
                    f"float32 / _int_mm {ms['float32'] / ms['_int_mm']:5.2f}", shape=[m, k, n], turns=turns,
                    seconds=times)
    results.save()


if __name__ == "__main__":
    main()
