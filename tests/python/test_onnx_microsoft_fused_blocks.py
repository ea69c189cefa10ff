"""com.microsoft's fusions around block-quantised products, and products with narrow floats in blocks. ONNX Runtime's
CPU has none of them, so they are compared with what their schemas say: its kernels of the parts, or numpy."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
ml_dtypes = pytest.importorskip("ml_dtypes")
from onnx import helper  # noqa: E402
from onnx_microsoft import F, U8, integers, normal, ours  # noqa: E402

BLOCK, BITS = 32, 4


def of_parts(nodes, arrays, outputs):
    """ONNX Runtime's results of nodes over arrays by name."""
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in arrays.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", ports, results)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        list(outputs), arrays)


def blocks(n, k, seed, bits=BITS, block=BLOCK):
    count = -(-k // block)
    return [integers(0, 256, n, count, block * bits // 8, seed=seed), normal(n, count, scale=0.1, seed=seed + 1)]


def product(a, b, out, bias="", n=None, k=None, bits=BITS, block=BLOCK):
    return helper.make_node("MatMulNBits", [a, b, f"{b}_scales", "", "", bias], [out], domain="com.microsoft", K=k, N=n,
                            bits=bits, block_size=block)


def close(results, expected):
    for result, theirs in zip(results, expected, strict=True):
        assert result.dtype == theirs.dtype and result.shape == theirs.shape
        scale = np.abs(theirs.astype(F)).max()
        limit = {F: 2e-5, np.float16: 2e-3}.get(theirs.dtype.type, 2e-2)
        np.testing.assert_allclose(result.astype(F), theirs.astype(F), rtol=0, atol=limit * scale)


def norm(skip, epsilon):
    if skip:
        return helper.make_node("SkipSimplifiedLayerNormalization", ["a", "skip", "scale"], ["x", "", "", "sum"],
                                domain="com.microsoft", epsilon=epsilon)
    return helper.make_node("SimplifiedLayerNormalization", ["a", "scale"], ["x"], axis=-1, epsilon=epsilon)


@pytest.mark.parametrize("rows", [(1, 1), (2, 9), (3, 30)])
@pytest.mark.parametrize("skip, scale, bias", [(False, False, False), (False, True, True), (True, True, False),
                                               (True, True, True)])
@pytest.mark.parametrize("constant", [True, False])
def test_gated_projections(constant, skip, scale, bias, rows):
    k, n = 64, 48
    arrays = {"a": normal(*rows, k)}
    arrays |= {"skip": normal(*rows, k, seed=1)} if skip else {}
    arrays |= {"scale": normal(k, seed=2)} if scale else {}
    for i, name in enumerate(("gate", "up")):
        arrays[name], arrays[f"{name}_scales"] = blocks(n, k, 10 * i)
        if bias:
            arrays[f"{name}_bias"] = normal(n, seed=30 + i)
    start = "x" if scale else "a"
    nodes = [*([norm(skip, 1e-5)] if scale else []),
             *[product(start, name, f"{name}_y", f"{name}_bias" if bias else "", n, k) for name in ("gate", "up")],
             helper.make_node("Sigmoid", ["gate_y"], ["s"]), helper.make_node("Mul", ["gate_y", "s"], ["g"]),
             helper.make_node("Mul", ["g", "up_y"], ["y"])]
    outputs = ("y", "sum") if skip else ("y",)
    inputs = [arrays.get(name) for name in ("a", "skip", "scale", "gate", "gate_scales", "gate_bias", "up", "up_scales",
                                            "up_bias")]
    results = ours("MatMulNBitsMlp", inputs, {"K": k, "N": n, "block_size": BLOCK, "bits": BITS, "activation": "silu"},
                   outputs, constants={f"x{i}" for i in (2, 3, 4, 5, 6, 7, 8) if inputs[i] is not None} if constant
                   else ())
    close(results, of_parts(nodes, arrays, outputs))


@pytest.mark.parametrize("skip, bias", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("rows", [(1, 1), (2, 9)])
def test_three_projections(rows, skip, bias):
    k, queries, others = 96, 64, 32
    arrays = {"a": normal(*rows, k), "scale": normal(k, seed=2)} | ({"skip": normal(*rows, k, seed=1)} if skip else {})
    for i, name in enumerate("qkv"):
        arrays[name], arrays[f"{name}_scales"] = blocks(others if i else queries, k, 10 * i)
        if bias:
            arrays[f"{name}_bias"] = normal(others if i else queries, seed=30 + i)
    nodes = [norm(skip, 1e-6), *[product("x", name, f"{name}_y", f"{name}_bias" if bias else "",
                                         queries if name == "q" else others, k) for name in "qkv"]]
    outputs = ("q_y", "k_y", "v_y", "sum")[:4 if skip else 3]
    names = ["a", "skip", "scale", *[f"{name}{part}" for name in "qkv" for part in ("", "_scales", "_bias")]]
    results = ours("MatMulNBitsQkv", [arrays.get(name) for name in names],
                   {"K": k, "Nq": queries, "Nkv": others, "block_size": BLOCK, "bits": BITS}, outputs)
    close(results, of_parts(nodes, arrays, outputs))


@pytest.mark.parametrize("rank", [8, 32, 40])
@pytest.mark.parametrize("empty", ["", "a", "b"])
@pytest.mark.parametrize("lora_bits", [4, 8])
def test_adapters(lora_bits, empty, rank):
    k, n, block = 64, 48, 16
    arrays = {"x": normal(2, 5, k)}
    for i, (name, width, depth, bits, size) in enumerate([("w", n, k, 4, BLOCK), ("a", rank, k, lora_bits, block),
                                                          ("b", n, rank, lora_bits, block)]):
        arrays[name], arrays[f"{name}_scales"] = blocks(width, depth, 10 * i, bits, size)
    given = dict(arrays)
    if empty:
        given[empty] = given[empty][:0] if empty == "a" else given[empty][:, :0]
    nodes = [product("x", "w", "base", "", n, k), product("x", "a", "down", "", rank, k, lora_bits, block),
             product("down", "b", "up", "", n, rank, lora_bits, block), helper.make_node("Add", ["base", "up"], ["y"])]
    expected = of_parts(nodes, arrays, ("base" if empty else "y",))       # zeros add nothing
    names = ("x", "w", "w_scales", "a", "a_scales", "b", "b_scales")
    results = ours("MatMulNBitsQLoRA", [given[name] for name in names],
                   {"K": k, "N": n, "lora_bits": lora_bits, "lora_block_size": block})
    close(results, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("k, block", [(256, 128), (70, 32)])
@pytest.mark.parametrize("rounded, bias", [(False, False), (True, True)])
@pytest.mark.parametrize("constant", [True, False])
def test_products_with_fp8(constant, rounded, bias, k, block, dtype):
    n = 24
    a, weights = normal(3, 4, k).astype(dtype), normal(n, k, seed=1).astype(ml_dtypes.float8_e4m3fn)
    scales, scale = np.abs(normal(n, -(-k // block), seed=2)), np.array(0.02, F)
    added = normal(n, seed=3).astype(dtype)
    left = a.astype(np.float64)
    if rounded:
        left = np.clip(a.astype(F) / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    right = weights.astype(np.float64) * np.repeat(scales, block, 1)[:, :k]
    expected = (left @ right.T + (added.astype(np.float64) if bias else 0)).astype(dtype)
    inputs = [a, weights, scales, scale if rounded else None, added if bias else None]
    constants = {f"x{i}" for i in (1, 2, 3, 4) if inputs[i] is not None} if constant else ()
    close(ours("MatMulBlockQuantizedFp8Weight", inputs, {"block_size": block}, constants=constants), [expected])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("k, block", [(64, 16), (70, 32)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("constant", [True, False])
def test_products_with_fp4(constant, bias, k, block, dtype):
    n = 24
    a, codes = normal(3, 4, k).astype(dtype), integers(0, 16, n, k)
    scales = np.abs(normal(n, -(-k // block), seed=2)).astype(ml_dtypes.float8_e4m3fn)
    whole, added = np.array([0.3], F), normal(n, seed=3).astype(dtype)
    numbers = codes.astype(U8).view(ml_dtypes.float4_e2m1fn).astype(F) * np.repeat(scales.astype(F), block, 1)[:, :k]
    right = (numbers * whole).astype(dtype).astype(np.float64)
    expected = (a.astype(np.float64) @ right.T + (added.astype(np.float64) if bias else 0)).astype(dtype)
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(U8)
    inputs = [a, packed, scales.view(U8), whole, None, added if bias else None]
    constants = {f"x{i}" for i in (1, 2, 3, 5) if inputs[i] is not None} if constant else ()
    close(ours("MatMulBlockQuantizedFp4Weight", inputs, {"block_size": block}, constants=constants), [expected])


SOME = {"K": 64, "N": 48, "block_size": BLOCK, "bits": BITS}
HALF = np.float16


@pytest.mark.parametrize("kind, inputs, attributes, said", [
    ("MatMulNBitsMlp", [normal(2, 64), normal(2, 64), None, *blocks(48, 64, 0), None, *blocks(48, 64, 1)],
     SOME | {"activation": "silu"}, "no norm_scale"),
    ("MatMulNBitsMlp", [normal(2, 64), None, None, *blocks(48, 64, 0), None, *blocks(48, 64, 1)],
     SOME | {"activation": "tanh"}, "activation is 'tanh'"),
    ("MatMulNBitsMlp", [normal(2, 64), None, None, *blocks(40, 64, 0), None, *blocks(48, 64, 1)],
     SOME | {"activation": "silu"}, "B is uint8"),
    ("MatMulNBitsQLoRA", [normal(2, 64), *blocks(48, 64, 0), *blocks(8, 64, 1, 8), *blocks(40, 8, 2, 8)],
     {"K": 64, "N": 48}, "B is uint8"),
    ("MatMulBlockQuantizedFp8Weight", [normal(2, 64).astype(HALF), normal(8, 64).astype(ml_dtypes.float8_e5m2),
                                       normal(8, 1)], {}, "expected float8e4m3fn"),
    ("MatMulBlockQuantizedFp8Weight", [normal(2, 64).astype(HALF), normal(8, 64).astype(ml_dtypes.float8_e4m3fn),
                                       normal(8, 2)], {}, r"input 2 has shape \[8, 2\], expected \[8, 1\]"),
    ("MatMulBlockQuantizedFp4Weight", [normal(2, 60).astype(HALF), integers(0, 256, 8, 32), integers(0, 256, 8, 4),
                                       normal(1)], {}, r"A has shape \[2, 60\], expected \[..., 64\]"),
    ("MatMulBlockQuantizedFp4Weight", [normal(2, 64).astype(HALF), integers(0, 256, 8, 32), integers(0, 256, 8, 4),
                                       normal(2)], {}, "weight_scale_2 has 2 elements"),
])
def test_refusals(kind, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=f"{kind}.*{said}"):
        ours(kind, inputs, attributes)
