"""com.microsoft's operators of tokens and text, on the host: against ONNX Runtime's CPU."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I32, I64, check, integers, model_of, normal, ours  # noqa: E402


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_repeated_ngrams(size):
    check("NGramRepeatBlock", [integers(0, 4, 3, 8, dtype=I64), normal(3, 5)], {"ngram_size": size})


@pytest.mark.parametrize("seed", range(12))
def test_bifurcation(seed):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 6, 12).astype(I64)
    begin = int(rng.integers(0, 12))
    predicted = np.append(source[begin:], 3)
    if seed % 2:
        predicted[rng.integers(0, len(predicted))] = 9
    inputs = [source, rng.integers(0, 6, 5).astype(I64), np.array([begin], I64), predicted.astype(I64)]
    check("BifurcationDetector", inputs if seed % 3 else inputs[:3], outputs=("tokens", "index"))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (1, 8, 3), (1, 6)])
def test_time_warping(shape):
    check("DynamicTimeWarping", [np.abs(normal(*shape))])
    check("DynamicTimeWarping", [np.zeros(shape, F)])


@pytest.mark.parametrize("x", [integers(0, 1000, 7, dtype=I32), integers(0, 1000, 7, dtype=I64), normal(7),
                               normal(7, dtype=np.float64),
                               np.array(["", "a", "ab", "abc", "abcd", "grüße"], object)],
                         ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("positive", [0, 1])
def test_murmur_hash(x, positive):
    check("MurmurHash3", [x], {"positive": positive, "seed": 42}, quanta=0)


TEXTS = np.array(["Hello World", "I love computer science !", "", "größe  x", "a.b,c"], object)


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4].reshape(2, 2)], ids=["one", "two"])
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("how", [{"separators": [" "]}, {"separators": [""]}, {"separators": ["\\.", ",", " "]},
                                 {"tokenexp": "[a-z]+"}, {"tokenexp": "."}, {"separators": ["l+"], "mincharnum": 2}],
                         ids=str)
def test_tokenizer(texts, mark, how):
    attributes = {"mark": mark, "pad_value": "#", "mincharnum": 1, **how}
    data, feeds = model_of("Tokenizer", [texts], ("y",), attributes)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    np.testing.assert_array_equal(clprim.Session(data).run(feeds)["y"], expected)


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("NGramRepeatBlock", [integers(5, 9, 2, 4, dtype=I64), normal(2, 3)], {"ngram_size": 1}, "token"),
    ("Tokenizer", [TEXTS], {"mark": 0, "pad_value": "", "mincharnum": 1, "separators": ["("]}, "not closed"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
