"""com.microsoft's operators of block-quantised weights against ONNX Runtime and float64."""
import os
import subprocess
import sys

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I32, I64, U8, check, integers, model_of, normal, ours  # noqa: E402


@pytest.mark.parametrize("rows", [1, 3, 11, 40])
@pytest.mark.parametrize("bits, block, zeros", [(4, 32, "packed"), (4, 16, "none"), (8, 32, "packed"), (4, 32, "real"),
                                                (2, 32, "none"), (4, 128, "packed")])
def test_matmul_nbits(bits, block, zeros, rows):
    n, k = 24, 96
    blocks = -(-k // block)
    b = integers(0, 256, n, blocks, block * bits // 8)
    points = {"packed": integers(0, 256, n, -(-blocks * bits // 8)), "none": None, "real": normal(n, blocks) + 8}[zeros]
    check("MatMulNBits", [normal(2, rows, k), b, normal(n, blocks, scale=0.1), points],
          {"K": k, "N": n, "bits": bits, "block_size": block}, constants={"x1", "x2", "x3"}, rtol=1e-4, atol=1e-3)


def four_bits(n, k, block, zeros):
    """Inputs of MatMulNBits beside A, and the weights that they stand for."""
    scales, q, points = normal(n, k // block, scale=0.1), integers(0, 16, n, k), integers(0, 16, n, k // block)
    inputs = [(q[:, ::2] | q[:, 1::2] << 4).reshape(n, k // block, block // 2), scales]
    if zeros:
        even = np.pad(points, ((0, 0), (0, points.shape[1] % 2)))
        inputs.append(even[:, ::2] | even[:, 1::2] << 4)
    numbers = q.astype(np.float64) - (np.repeat(points, block, 1) if zeros else 8)
    return inputs, numbers * np.repeat(scales, block, 1)


def nbits_product(x, inputs, n, block, level):
    y, = ours("MatMulNBits", [x, *inputs],
              {"K": x.shape[1], "N": n, "bits": 4, "block_size": block, "accuracy_level": level},
              constants={"x1", "x2", "x3"})
    return y


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("block, zeros", [(32, False), (64, True), (128, True), (256, False)])
@pytest.mark.parametrize("n", [3, 20, 22, 136, 600])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_matmul_nbits_of_few_rows(rows, n, block, zeros, level):
    """Against float64, as float32 sums are."""
    x, (inputs, weights) = normal(rows, 512), four_bits(n, 512, block, zeros)
    magnitude = np.abs(x).astype(np.float64) @ (8 * np.repeat(np.abs(inputs[1]), block, 1)).T
    y = nbits_product(x, inputs, n, block, level)
    assert (np.abs(y - x.astype(np.float64) @ weights.T) <= 1e-6 * magnitude).all()


@pytest.mark.parametrize("rows", [1, 3])
def test_large_numbers_of_no_weight_hide_no_others(rows):
    """An input that is 10000 times its neighbours and has weights of zero alone."""
    x, (inputs, weights) = normal(rows, 256), four_bits(24, 256, 32, False)
    x[:, 77] = 1e4
    inputs[0].reshape(24, 128)[:, 38] = inputs[0].reshape(24, 128)[:, 38] & 15 | 8 << 4
    weights[:, 77] = 0
    want = x.astype(np.float64) @ weights.T
    np.testing.assert_allclose(nbits_product(x, inputs, 24, 32, 0), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17])
@pytest.mark.parametrize("n, k, block, zeros", [(4, 128, 32, False), (22, 160, 32, True), (135, 320, 64, True),
                                                (20, 192, 96, False), (136, 512, 128, True), (40, 512, 256, True),
                                                (3, 64, 32, False), (600, 2048, 32, True), (24, 160, 16, True)])
def test_matmul_nbits_by_bytes(n, k, block, zeros, rows):
    """At level 4 A may become bytes, with a scale for each 32 of a row: half a step is lost at most."""
    x, (inputs, weights) = normal(rows, k), four_bits(n, k, block, zeros)
    step = np.repeat(np.abs(x).reshape(rows, -1, 32).max(2) / 127, 32, 1)
    lost = (0.501 * step) @ np.abs(weights).T
    terms = np.abs(x).astype(np.float64) @ (16 * np.repeat(np.abs(inputs[1]), block, 1)).T
    y = nbits_product(x, inputs, n, block, 4)
    error = np.abs(y - x.astype(np.float64) @ weights.T)
    assert (error <= lost + 1e-6 * terms).all()
    assert np.linalg.norm(error) < 0.01 * np.linalg.norm(x) * np.linalg.norm(weights) / k ** 0.5   # as of random steps


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("values", [(np.nan,), (np.inf,), (-np.inf,), (np.inf, -np.inf), (1e-39,)])
def test_matmul_nbits_of_any_numbers(values, rows, level):
    """Infinities and NaN give IEEE's answer, and other rows none of it; of weights zero and not."""
    x, (inputs, weights) = normal(rows, 256), four_bits(24, 256, 32, True)
    x[rows // 2, 77:77 + len(values)] = values
    y = nbits_product(x, inputs, 24, 32, level)
    with np.errstate(invalid="ignore"):
        want = (x.astype(np.float64)[:, None] * weights).sum(2)
    np.testing.assert_allclose(y, want, rtol=1e-4 if level == 0 else 0.1, atol=1e-4 if level == 0 else 2)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core here")
def test_matmul_nbits_by_bytes_on_one_core():
    """A work-item has all columns then, also where they are fewer than it takes at a time."""
    core = min(os.sched_getaffinity(0))
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__,
                           "-k", "test_matmul_nbits_by_bytes and not one_core"], capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}), timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_matmul_nbits_bias():
    b = integers(0, 256, 8, 2, 16)
    check("MatMulNBits", [normal(5, 64), b, normal(8, 2, scale=0.1), None, None, normal(8)],
          {"K": 64, "N": 8, "bits": 4, "block_size": 32}, constants={"x1", "x2", "x5"}, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_block_quantized(bits, zeros):
    rows, columns, block = 10, 64, 16
    data = integers(0, 256, rows, columns * bits // 8)
    points = integers(0, 256, rows, columns // block * bits // 8) if zeros else None
    check("GatherBlockQuantized", [data, integers(0, rows, 2, 3, dtype=I64), normal(rows, columns // block), points],
          {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, constants={"x0", "x2", "x3"})


def test_rows_outside_of_a_table_are_zero():
    data = integers(0, 256, 10, 32)
    check("GatherBlockQuantized", [data, np.array([[3, -10, 10], [-11, 9, 1 << 40]]), normal(10, 2)],
          {"bits": 4, "block_size": 32}, constants={"x0", "x2"})


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
                                   "float4_e2m1fn"])
@pytest.mark.parametrize("gather, quantize, block, scales", [
    (0, 1, 16, (10, 5)), (0, 1, 0, (10, 1)), (0, 1, 16, (1, 5)), (1, 0, 0, (1, 80)), (1, 0, 0, (1, 1)),
    (0, 0, 16, (1, 80)), (0, -1, 64, (10, 2)),
])
def test_tables_of_narrow_floats(dtype, gather, quantize, block, scales):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    data = normal(10, 80).astype(getattr(ml_dtypes, dtype))
    index = np.array([[3, -1, 0], [9, 10, 2]], I32)
    check("GatherBlockQuantized", [data, index, np.abs(normal(*scales))],
          {"block_size": block, "gather_axis": gather, "quantize_axis": quantize}, constants={"x0", "x2"}, rtol=1e-6)


@pytest.mark.parametrize("scales, points, said", [
    ((10, 3), None, r"scales have shape \[10, 3\]"), ((2, 4), None, r"scales have shape \[2, 4\]"),
    ((10, 4), True, "has no zero points"),
])
def test_refused_tables_of_narrow_floats(scales, points, said):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    data = normal(10, 64).astype(ml_dtypes.float8_e4m3fn)
    with pytest.raises(clprim.Error, match="GatherBlockQuantized.*" + said):
        ours("GatherBlockQuantized", [data, np.array([3, 1]), normal(*scales), data if points else None],
             {"block_size": 16}, constants={"x0", "x2"})


def blob(weights, kind):
    """Weights [k, n] as MatMulFpQ4 has them (blk_quant_type `kind`), and what they stand for."""
    k, n = weights.shape
    blocks = -(-k // 32)
    lines = np.zeros((n, blocks, 32), F)
    lines.reshape(n, -1)[:, :k] = weights.T
    if kind == 0:
        ends = np.take_along_axis(lines, np.abs(lines).argmax(-1)[..., None], -1)
        scales, zeros = ends / F(-8), np.full((n, blocks, 1), 8, U8)
    else:
        least, largest = np.minimum(lines.min(-1, keepdims=True), 0), np.maximum(lines.max(-1, keepdims=True), 0)
        scales = (largest - least) / F(15)
        zeros = np.rint(-least / scales).astype(U8)
    codes = np.clip(np.rint(lines / scales) + zeros, 0, 15).astype(U8)
    parts = [scales.astype(F).view(U8), zeros, codes[..., :16] | codes[..., 16:] << 4]
    packed = np.concatenate(parts if kind else [parts[0], parts[2]], -1).ravel()
    real = (codes.astype(np.float64) - zeros) * scales
    return packed, real.reshape(n, -1)[:, :k].T


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape, n", [((1, 64), 8), ((2, 3, 96), 20), ((5, 70), 17), ((40, 256), 24), ((0, 32), 3)])
def test_matmul_fpq4(kind, constant, shape, n):
    a, (b, real) = normal(*shape), blob(normal(shape[-1], n), kind)
    inputs, constants = [a, b, np.array(real.shape, I64)], {"x1", "x2"} if constant else {"x2"}
    y, = ours("MatMulFpQ4", inputs, {"blk_quant_type": kind}, constants=constants)
    np.testing.assert_allclose(y, a @ real, rtol=1e-4, atol=2e-5)
    try:
        check("MatMulFpQ4", inputs, {"blk_quant_type": kind}, constants=constants)
    except Exception as refused:                       # ONNX Runtime has a kernel for processors with AVX-512 alone
        if "not yet supported on this hardware" not in str(refused):
            raise


def test_matmul_fpq4_of_constants_is_matmul_nbits(tmp_path):
    a, (b, real) = normal(3, 64), blob(normal(64, 8), 1)
    data, feeds = model_of("MatMulFpQ4", [a, b, np.array(real.shape, I64)], ("y",), {}, {"x1", "x2"})
    session = clprim.Session(data)
    y = session.run(feeds)["y"]
    session.save(tmp_path / "saved.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "saved.onnx").graph.node] == ["MatMulNBits"]
    np.testing.assert_array_equal(clprim.Session(tmp_path / "saved.onnx").run(feeds)["y"], y)


@pytest.mark.parametrize("change, said", [
    ({"blk_quant_type": 2}, "blk_quant_type is 2"), ({"B": np.zeros(50, U8)}, r"expected uint8 \[168\]"),
    ({"B_shape": np.array([64, 4, 1], I64)}, "B_shape has 3"), ({"B_shape": np.array([64, -4], I64)}, r"\[64, -4\]"),
])
@pytest.mark.parametrize("constants", [set(), {"x1", "x2"}])
def test_matmul_fpq4_refuses(change, said, constants):
    inputs = {"B": np.zeros(168, U8), "B_shape": np.array([64, 4], I64)}
    inputs |= {name: array for name, array in change.items() if name in inputs}
    attributes = {name: value for name, value in change.items() if name not in inputs}
    with pytest.raises(clprim.InvalidArgument, match="MatMulFpQ4.*" + said):
        ours("MatMulFpQ4", [normal(2, 64), *inputs.values()], attributes, constants=constants)
