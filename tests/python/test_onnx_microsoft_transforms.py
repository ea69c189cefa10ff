"""com.microsoft's products, spectra, rotations, crops and windows: against ONNX Runtime's CPU where it has a kernel,
else against their definitions."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402
from onnx_microsoft import CLOSE, F, I32, I64, check, integers, normal, ours  # noqa: E402


@pytest.mark.parametrize("dtype, close", [(F, 1e-4), (np.float64, 1e-9), (np.float16, 2e-2)])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 8, 8), (0, 4, 4)])
def test_inverse(shape, dtype, close):
    x = (normal(*shape) + 4 * np.eye(shape[-1])).astype(dtype)
    check("Inverse", [x], rtol=close, atol=close)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("n, k, block", [(8, 64, 16), (5, 48, 32), (3, 33, 16)])
def test_matmul_bnb4(kind, n, k, block):
    if k == 33:                                        # ONNX Runtime's kernel wants whole blocks in a row
        packed, largest = integers(0, 256, (n * k + 1) // 2), np.abs(normal(-(-n * k // block)))
        x = np.eye(k, dtype=F)
        y, = ours("MatMulBnb4", [x, packed, largest], {"K": k, "N": n, "block_size": block, "quant_type": kind})
        same, = ours("MatMulBnb4", [np.eye(n, dtype=F), packed, largest],
                     {"K": k, "N": n, "block_size": block, "quant_type": kind, "transB": 0})
        np.testing.assert_array_equal(y, same.T)
        assert np.abs(y).max() <= largest.max()
        return
    inputs = [normal(2, 3, k), integers(0, 256, (n * k + 1) // 2), np.abs(normal(-(-n * k // block)))]
    check("MatMulBnb4", inputs, {"K": k, "N": n, "block_size": block, "quant_type": kind}, constants={"x1", "x2"})


def test_fused_products_and_tables():
    a, b = normal(3, 4), normal(5, 4)
    y, = ours("FusedMatMulActivation", [a, b], {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu",
                                                "activation_alpha": 0.2})
    product = 0.5 * (a @ b.T)
    np.testing.assert_allclose(y, np.where(product > 0, product, 0.2 * product), **CLOSE)
    table, at = normal(9, 3), np.array([[0, 8], [4, 4]], I64)
    np.testing.assert_array_equal(ours("TorchEmbedding", [table, at], {})[0], table[at])


def test_complex_numbers_and_spectra():
    a, b = normal(3, 4, 2), normal(4, 2)
    ca, cb = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for name, expected in (("ComplexMul", ca * cb), ("ComplexMulConj", ca * cb.conj())):
        np.testing.assert_allclose(ours(name, [a, b], {})[0], np.stack([expected.real, expected.imag], -1), **CLOSE)
    x = normal(3, 5, 12)
    spectrum, = ours("Rfft", [x], {"signal_ndim": 1})
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(spectrum, np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours("Irfft", [spectrum], {"signal_ndim": 1})[0], x, **CLOSE)


def test_gemma_rotary_embedding():
    angles, (q, qr, k, kr) = normal(2, 3, 8), (normal(2, 4, 3, 8, seed=i) for i in range(4))
    results = ours("GemmaRotaryEmbedding", [angles, q, qr, k, kr], {}, ("a", "b"))
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    for result, expected in zip(results, (q * c + qr * s, k * c + kr * s), strict=True):
        np.testing.assert_allclose(result, expected, **CLOSE)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["three", "four", "partial"])
def test_multimodal_rotary_embedding(layout, interleaved, form):
    pairs = 6
    angles = np.arange(20)[:, None] / 50 ** (np.arange(pairs) / pairs)
    x = normal(2, 4, 3, 2 * pairs) if form == "four" else normal(2, 3, 4 * (16 if form == "partial" else 12))
    attributes = {"mrope_section": [2, 2, 2], "mrope_layout": layout, "interleaved": interleaved}
    if form != "four":
        attributes["num_heads"] = 4
    if form == "partial":
        attributes |= {"rotary_embedding_dim": 12}
    check("MRotaryEmbedding", [x, integers(0, 20, 3, 2, 3, dtype=I64), np.cos(angles).astype(F),
                               np.sin(angles).astype(F)], attributes)


def test_words_without_characters():
    """ONNX Runtime leaves their results as it finds the memory."""
    words = np.array([[0, 0, 0, 0], [4, 2, 1, 0], [0, 3, 4, 5]], I32)
    y, = ours("WordConvEmbedding", [words, normal(6, 1, 3, 4), normal(6), normal(9, 4)], {})
    assert y[1].all() and not y[[0, 2]].any()


@pytest.mark.parametrize("name, inputs, attributes", [
    ("UnfoldTensor", [normal(3, 10)], {"size": 4, "step": 2}),
    ("UnfoldTensor", [integers(0, 9, 7, 3, dtype=I64)], {"size": 3, "dim": 0}),
    ("ConvTransposeWithDynamicPads", [normal(1, 2, 5, 5), normal(2, 3, 3, 3), np.array([1, 0, 1, 0], I64)],
     {"strides": [2, 2]}),
    ("ConvTransposeWithDynamicPads", [normal(1, 2, 5, 5), normal(2, 3, 3, 3), np.array([1, 1, 1, 1], I64), normal(3)],
     {}),
    ("SampleOp", [normal(3)], {}),
    # Words that fill their row, are shorter, than the window too, or have a hole.
    ("WordConvEmbedding", [np.array([[1, 2, 3, 4, 5], [3, 1, 4, 0, 0], [7, 0, 0, 0, 0], [2, 0, 6, 8, 0]], I32),
                           normal(6, 1, 3, 4), normal(6), normal(9, 4)], {}),
])
def test_windows(name, inputs, attributes):
    check(name, inputs, attributes)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 5), (6, 1)])
def test_crop_and_resize(mode, size):
    boxes = np.array([[0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1], [0.9, 0.1, 0.2, 0.4], [-0.2, 0.3, 0.5, 1.4]], F)
    check("CropAndResize", [normal(2, 3, 7, 9), boxes, np.array([0, 1, 1, 0], I32), np.array(size, I32)],
          {"mode": mode, "extrapolation_value": 0.5})


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("CropAndResize", [normal(1, 1, 4, 4), normal(1, 4), np.array([0], I32), np.array([2, 2], I32)],
     {"mode": "cubic"}, "mode is 'cubic'"),
    ("Inverse", [normal(3, 4)], {}, "square"),
    ("MatMulBnb4", [normal(2, 32), integers(0, 256, 16), normal(2)], {"K": 32, "N": 1, "block_size": 16,
                                                                      "quant_type": 2}, "quant_type is 2"),
    ("UnfoldTensor", [normal(3)], {"size": 4}, "size is 4"),
    ("WordConvEmbedding", [integers(0, 9, 2, 5, dtype=I32), normal(6, 1, 7, 4), normal(6), normal(9, 4)], {},
     "do not fit"),
    ("MRotaryEmbedding", [normal(1, 2, 8), integers(0, 4, 3, 1, 2, dtype=I64), normal(4, 4), normal(4, 4)],
     {"mrope_section": [1, 1, 1]}, "mrope_section"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_products_with_sparse_matrices(turned, constant):
    """ONNX Runtime is given a sparse tensor; ours takes it dense, or from a sparse initializer."""
    rng = np.random.default_rng(0)
    shape = (7, 5) if turned[0] else (5, 7)
    a = np.where(rng.random(shape) < 0.4, normal(*shape), 0).astype(F)
    b = normal(*((3, 7) if turned[1] else (7, 3)))
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", transA=turned[0],
                            transB=turned[1], alpha=0.5)
    port = onnx.ValueInfoProto(name="a")
    port.type.sparse_tensor_type.elem_type = onnx.TensorProto.FLOAT   # of a shape ONNX Runtime would not turn it

    def model(inputs, sparse=()):
        graph = helper.make_graph([node], "g", [*inputs, helper.make_tensor_value_info("b", 1, b.shape)],
                                  [helper.make_empty_tensor_value_info("y")])
        graph.sparse_initializer.extend(sparse)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()

    rows = np.concatenate([[0], np.cumsum((a != 0).sum(1))]).astype(I64)
    columns = np.nonzero(a)[1].astype(I64)
    sparse = ort.SparseTensor.sparse_csr_from_numpy(np.array(a.shape, I64), a[a != 0], columns, rows,
                                                    ort.OrtDevice.make("cpu", 0))
    feeds = {"a": ort.OrtValue.ort_value_from_sparse_tensor(sparse), "b": ort.OrtValue.ortvalue_from_numpy(b)}
    theirs = ort.InferenceSession(model([port]), providers=["CPUExecutionProvider"]).run_with_ort_values(["y"], feeds)
    places = np.flatnonzero(a).astype(I64)
    initializer = helper.make_sparse_tensor(numpy_helper.from_array(a.ravel()[places], "a"),
                                            numpy_helper.from_array(places, "places"), list(a.shape))
    session = clprim.Session(model([], [initializer]) if constant else model([port]))
    y = session.run({"b": b} if constant else {"a": a, "b": b})["y"]
    np.testing.assert_allclose(y, theirs[0].numpy(), rtol=1e-5, atol=1e-5)
