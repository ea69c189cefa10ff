"""Nets of layers for sequences against PyTorch's CPU: values, gradients, steps of training."""
import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clprim


def net_of(operators, inputs, output, mode="train", constants=()):
    net = clprim.Net()
    for name, array in inputs.items():
        net.add_input(name, array.shape, str(array.dtype), name not in constants and array.dtype.kind == "f")
    for kind, name, reads, options in operators:
        net.add(kind, name, reads, [name], options)
    net.mark_output(output)
    net.use_output_gradient(output)
    net.mode = mode
    net.setup()
    net.initialize_parameters(1)
    for name, array in inputs.items():
        net.tensor(name).write(array)
    return net


def check(operators, inputs, reference, constants=(), tolerance=2e-5):
    """`reference` is a function of the inputs and parameters as float64 tensors."""
    output = operators[-1][1]
    net = net_of(operators, inputs, output, constants=constants)
    random = np.random.default_rng(5)
    weights = {name: random.standard_normal(array.shape).astype(array.dtype) * 0.5
               for name, array in net.parameters().items()}
    net.load_parameters(weights)
    net.forward()
    leaves = {name: torch.tensor(array, dtype=torch.float64, requires_grad=name not in constants)
              if array.dtype.kind == "f" else torch.tensor(array) for name, array in {**inputs, **weights}.items()}
    expected = reference(*leaves.values())
    np.testing.assert_allclose(net.tensor(output).numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    gradient = random.standard_normal(expected.shape).astype("f")
    net.gradient(output).write(gradient)
    net.zero_grad()
    net.backward()
    expected.backward(torch.tensor(gradient, dtype=torch.float64))
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            got = net.gradient(name) if name in inputs else net.parameter_gradient(name)
            np.testing.assert_allclose(got.numpy(), leaf.grad.numpy(), rtol=10 * tolerance, atol=10 * tolerance,
                                       err_msg=name)
    predicting = net_of(operators, inputs, output, mode="predict", constants=constants)
    predicting.load_parameters(weights)
    predicting.forward()
    np.testing.assert_allclose(predicting.tensor(output).numpy(), expected.detach().numpy(), rtol=tolerance,
                               atol=tolerance)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


def test_linear_along_the_last_axis():
    check([("Linear", "y", ["x"], {"outputs": 6})], {"x": normal(2, 3, 5)}, F.linear)
    check([("Linear", "y", ["x"], {"outputs": 3, "bias": False})], {"x": normal(4, 7)}, F.linear)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_products_of_matrices(ta, tb):
    a, b = normal(2, 3, 4, 5), normal(2, 3, 5, 6, seed=1)
    turn = lambda t: t.swapaxes(-1, -2)
    inputs = {"a": np.ascontiguousarray(turn(a)) if ta else a, "b": np.ascontiguousarray(turn(b)) if tb else b}
    check([("MatMul", "y", ["a", "b"], {"transpose_a": ta, "transpose_b": tb, "scale": 0.5})], inputs,
          lambda a, b: 0.5 * (turn(a) if ta else a) @ (turn(b) if tb else b))


def test_layer_norm():
    check([("LayerNorm", "y", ["x"], {"eps": 1e-3})], {"x": normal(3, 4, 9)},
          lambda x, w, b: F.layer_norm(x, (9,), w, b, 1e-3))
    check([("LayerNorm", "y", ["x"], {"rms": True})], {"x": normal(3, 9)}, lambda x, w: F.rms_norm(x, (9,), w, 1e-5))


def test_embedding():
    ids = np.array([[1, 4, 4], [0, 1, 5]], np.int64)
    check([("Embedding", "y", ["ids"], {"count": 6, "size": 3})], {"ids": ids}, F.embedding)
    net = net_of([("Embedding", "y", ["ids"], {"count": 6, "size": 3})], {"ids": ids + 1}, "y")
    with pytest.raises(clprim.IndexError, match="Embedding"):
        net.forward()
        net.tensor("y").numpy()


def split(t, heads):
    return t.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(q, k, v, heads, mask=None, causal=False):
    scores = split(q, heads) @ split(k, heads).mT / math.sqrt(q.size(-1) // heads)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores + mask
    return (scores.softmax(-1) @ split(v, heads)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    inputs = {"q": normal(2, 5, 8), "k": normal(2, 5, 8, seed=1), "v": normal(2, 5, 12, seed=2)}
    check([("Attention", "y", ["q", "k", "v"], {"heads": 4, "causal": causal})], inputs,
          lambda q, k, v: attend(q, k, v, 4, causal=causal))


def test_attention_with_a_mask():
    inputs = {"q": normal(2, 3, 8), "k": normal(2, 5, 8, seed=1), "v": normal(2, 5, 8, seed=2),
              "mask": normal(2, 1, 3, 5, seed=3)}
    check([("Attention", "y", ["q", "k", "v", "mask"], {"heads": 2})], inputs,
          lambda q, k, v, mask: attend(q, k, v, 2, mask), constants=["mask"])


def test_permute():
    check([("Permute", "y", ["x"], {"dims": [2, 0, 1]})], {"x": normal(2, 3, 4)}, lambda x: x.permute(2, 0, 1))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("steps", [1, 4])
def test_recurrent_layers(kind, steps):
    def reference(x, *weights):
        module = getattr(torch.nn, kind)(5, 6, batch_first=True).double()
        names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
        return torch.func.functional_call(module, dict(zip(names, weights)), (x,))[0]

    check([(kind, "y", ["x"], {"hidden": 6})], {"x": normal(3, steps, 5)}, reference)


@pytest.mark.parametrize("kind,inputs,options,message", [
    ("Linear", {"x": normal(2, 3)}, {"outputs": 0}, "must be positive"),
    ("MatMul", {"a": normal(2, 3), "b": normal(2, 3)}, {}, "do not fit"),
    ("Attention", {"q": normal(2, 3, 8), "k": normal(2, 3, 8), "v": normal(2, 3, 8)}, {"heads": 3}, "3 heads"),
    ("Embedding", {"x": normal(2, 3)}, {"count": 3, "size": 2}, "must be int32 or int64"),
    ("Permute", {"x": normal(2, 3)}, {"dims": [0, 0]}, "each axis once"),
    ("LSTM", {"x": normal(2, 3)}, {"hidden": 2}, r"\[N, T, features\]"),
])
def test_what_does_not_fit(kind, inputs, options, message):
    with pytest.raises(ValueError, match=message):
        net_of([(kind, "y", list(inputs), options)], inputs, "y")


def transformer(width=16, heads=4, words=11, classes=3):
    """An encoder layer after an embedding, a mean over the words, classes: operators and the same in PyTorch."""
    operators = [
        ("Embedding", "tokens", ["ids"], {"count": words, "size": width}),
        ("LayerNorm", "n1", ["tokens"], {}),
        *[("Linear", name, ["n1"], {"outputs": width}) for name in "qkv"],
        ("Attention", "attended", ["q", "k", "v"], {"heads": heads}),
        ("Linear", "projected", ["attended"], {"outputs": width}),
        ("Elementwise", "r1", ["tokens", "projected"], {}),
        ("LayerNorm", "n2", ["r1"], {}),
        ("Linear", "wide", ["n2"], {"outputs": 2 * width}),
        ("Pointwise", "act", ["wide"], {"function": "gelu"}),
        ("Linear", "narrow", ["act"], {"outputs": width}),
        ("Elementwise", "r2", ["r1", "narrow"], {}),
        ("Reduction", "mean", ["r2"], {"method": "mean", "dims": [1], "keep_dim": False}),
        ("Linear", "scores", ["mean"], {"outputs": classes}),
        ("SoftmaxWithLoss", "loss", ["scores", "label"], {}),
    ]

    def loss(p, ids, label):
        linear = lambda x, name: F.linear(x, p[f"{name}.0"], p[f"{name}.1"])
        norm = lambda x, name: F.layer_norm(x, (width,), p[f"{name}.0"], p[f"{name}.1"])
        x = F.embedding(ids, p["tokens.0"])
        n = norm(x, "n1")
        x = x + linear(attend(*(linear(n, name) for name in "qkv"), heads), "projected")
        x = x + linear(F.gelu(linear(norm(x, "n2"), "wide")), "narrow")
        return F.cross_entropy(linear(x.mean(1), "scores"), label)

    return operators, loss


def test_a_transformer_trains_as_in_pytorch(tmp_path):
    """Adam with decoupled decay, gradients clipped, a cosine schedule; and again from a checkpoint of the middle."""
    operators, reference = transformer()
    random = np.random.default_rng(0)
    ids, label = random.integers(0, 11, (4, 6)), random.integers(0, 3, 4)

    def fresh():
        net = clprim.Net()
        net.add_input("ids", ids.shape, "int64")
        net.add_input("label", label.shape, "int64")
        for kind, name, reads, options in operators:
            net.add(kind, name, reads, [name], options)
        net.mark_output("loss")
        net.mode = "train"
        net.setup()
        net.initialize_parameters(1)
        net.tensor("ids").write(ids)
        net.tensor("label").write(label)
        solver = clprim.AdamW(lr=1e-2, weight_decay=0.1)
        solver.max_gradient_norm = 0.5
        return net, solver

    net, solver = fresh()
    parameters = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
                  for name, value in net.parameters().items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=1e-2, weight_decay=0.1)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    losses, expected = [], []
    for step in range(8):
        solver.lr = optimizer.param_groups[0]["lr"]
        solver.step(net)
        losses.append(float(net.tensor("loss").numpy().item()))
        optimizer.zero_grad()
        loss = reference(parameters, torch.tensor(ids), torch.tensor(label))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), 0.5)
        optimizer.step()
        rates.step()
        expected.append(loss.item())
        if step == 3:
            solver.save_checkpoint(net, str(tmp_path / "middle.safetensors"))
            rate = optimizer.param_groups[0]["lr"]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    again, resumed = fresh()
    resumed.load_checkpoint(again, str(tmp_path / "middle.safetensors"))
    resumed.lr = rate
    resumed.step(again)
    assert float(again.tensor("loss").numpy().item()) == losses[4]


def test_mixed_precision_keeps_float32_parameters():
    """Steps too small for float16 add up, and a scaled loss gives the same step."""
    x = normal(8, 6)
    losses = {}
    for dtype, scale in (("float32", 1), ("float16", 256)):
        net = clprim.Net()
        net.add_input("x", x.shape, dtype)
        net.add_input("target", (8, 4), dtype)
        net.add("Linear", "y", ["x"], ["y"], {"outputs": 4})
        net.add("MSELoss", "loss", ["y", "target"], ["loss"], {})
        net.mark_output("loss")
        net.set_loss_weight("loss", scale)
        net.mode = "train"
        net.setup()
        net.load_parameters({"y.0": np.ones((4, 6), "f"), "y.1": np.zeros(4, "f")})
        net.tensor("x").write(x.astype(dtype))
        net.tensor("target").write(np.zeros((8, 4), dtype))
        solver = clprim.SGD(lr=1e-4)
        solver.gradient_scale = scale
        for _ in range(50):
            solver.step(net)
        losses[dtype] = net.parameters()["y.0"].astype("f")
        if dtype == "float16":
            assert solver.state()["y.0/float32"].dtype == np.float32
    assert (losses["float32"] != 1).all()
    np.testing.assert_allclose(losses["float16"], losses["float32"], rtol=1e-3)
