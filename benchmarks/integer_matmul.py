"""Products of int8 matrices against ONNX Runtime's MatMulInteger with constant weights, and against our own float32,
interleaved in one run: medians, and ONNX Runtime / ours (above 1 we are faster). Ours is a session of the same model.

    python benchmarks/integer_matmul.py [--rounds 15] [--only 512] [--json results.json]
"""
import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

import clprim
from common import Results, interleave, median_ms, parser

SHAPES = [(1, 1024, 1024), (8, 1024, 1024), (64, 1024, 1024), (512, 1024, 1024), (512, 768, 3072), (4096, 4096, 4096)]


def model(weights):
    k, n = weights.shape
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["m", k])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, ["m", n])],
                              [onnx.numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--only", default="", help="shapes whose line contains this")
    options = arguments.parse_args()
    results = Results(options)
    random = numpy.random.default_rng(0)
    for m, k, n in SHAPES:
        name = f"{m:5d} x {k:5d} x {n:5d}"
        if options.only not in name:
            continue
        weights = random.integers(-128, 128, (k, n), dtype=numpy.int8)
        x = random.integers(0, 256, (m, k), dtype=numpy.uint8)
        text = model(weights)
        theirs = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
        ours = clprim.Session(text)
        a = torch.from_numpy(x.astype(numpy.int16) - 128).to(torch.int8).to(options.device)
        b = torch.from_numpy(weights).to(options.device)
        fa, fb = a.float(), b.float()
        calls = max(1, min(20, int(2e8 / (m * k * n))))

        def repeated(run):
            for _ in range(calls):
                run()

        cpu = torch.device("cpu")
        times = interleave({"theirs": (lambda: repeated(lambda: theirs.run(None, {"x": x})), cpu),
                            "session": (lambda: repeated(lambda: ours.run({"x": x})), cpu),
                            "_int_mm": (lambda: repeated(lambda: torch._int_mm(a, b)), options.device),
                            "float32": (lambda: repeated(lambda: torch.mm(fa, fb)), options.device)},
                           options.rounds, pause=0.01)
        ms = {key: median_ms(value) / calls for key, value in times.items()}
        text = "  ".join(f"{key} {value:8.3f} ms" for key, value in ms.items())
        results.add(f"{name}  {text}  ONNX Runtime / session {ms['theirs'] / ms['session']:5.2f}  "
                    f"float32 / _int_mm {ms['float32'] / ms['_int_mm']:5.2f}", shape=[m, k, n], calls=calls,
                    seconds=times)
    results.save()


if __name__ == "__main__":
    main()
