"""LSTM and GRU: PyTorch calls fused cells on an accelerator, which the device supplies."""

import pytest
import torch

from comparison import device


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_layers(kind, bias):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(5, 4, num_layers=2, bias=bias, bidirectional=True, batch_first=True)
    there = getattr(torch.nn, kind)(5, 4, num_layers=2, bias=bias, bidirectional=True, batch_first=True).to(device)
    there.load_state_dict(layer.state_dict())
    x = torch.randn(3, 6, 5)
    a, b = x.clone().requires_grad_(), x.to(device).requires_grad_()
    ya, ha = layer(a)
    yb, hb = there(b)
    torch.testing.assert_close(yb.cpu(), ya)
    torch.testing.assert_close([h.cpu() for h in (hb if kind == "LSTM" else [hb])],
                               list(ha if kind == "LSTM" else [ha]))
    weight = torch.randn_like(ya)
    (ya * weight).sum().backward()
    (yb * weight.to(device)).sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)
    for (name, p), q in zip(layer.named_parameters(), there.parameters()):
        torch.testing.assert_close(q.grad.cpu(), p.grad, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("kind, options", [("RNN", {"nonlinearity": "relu"}), ("LSTM", {"proj_size": 3}), ("GRU", {})])
def test_kinds_of_layers(kind, options):
    torch.manual_seed(5)
    layer = getattr(torch.nn, kind)(5, 4, dtype=torch.float64, **options)
    there = getattr(torch.nn, kind)(5, 4, dtype=torch.float64, **options).to(device)
    there.load_state_dict(layer.state_dict())
    x = torch.randn(12, 3, 5, dtype=torch.float64)
    sizes = (options.get("proj_size", 4), 4) if kind == "LSTM" else (4,)
    state = [torch.randn(1, 3, size, dtype=torch.float64) for size in sizes]
    results = []
    for where, module in (("cpu", layer), (device, there)):
        leaves = [t.to(where).requires_grad_() for t in [x, *state]]
        y, last = module(leaves[0], tuple(leaves[1:]) if kind == "LSTM" else leaves[1])
        last = list(last) if kind == "LSTM" else [last]
        grads = torch.autograd.grad(y.square().sum() + sum(t.sin().sum() for t in last),
                                    [*leaves, *module.parameters()])
        results.append([t.cpu() for t in (y, *last, *grads)])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("hidden, batch", [(3, 2), (16, 1), (37, 20), (130, 7), (530, 3)])
@pytest.mark.parametrize("kind, options", [("LSTM", {}), ("GRU", {}), ("GRU", {"bias": False}), ("RNN", {}),
                                           ("RNN", {"nonlinearity": "relu"})])
def test_layers_of_many_steps(kind, options, hidden, batch):
    torch.manual_seed(7)
    layer = getattr(torch.nn, kind)(6, hidden, bidirectional=True, **options)
    there = getattr(torch.nn, kind)(6, hidden, bidirectional=True, **options).to(device)
    there.load_state_dict(layer.state_dict())
    # States that do not lie side by side.
    states = [torch.randn(2, batch, 2 * hidden)[..., ::2] for _ in range(2 if kind == "LSTM" else 1)]
    x = torch.randn(11, batch, 6)
    weights = torch.randn(11, batch, 2 * hidden)
    results = []
    for where, module in (("cpu", layer), (device, there)):
        leaves = [t.to(where).requires_grad_() for t in [x, *states]]

        def run():
            y, last = module(leaves[0], tuple(leaves[1:]) if kind == "LSTM" else leaves[1])
            return [y, *(last if kind == "LSTM" else [last])]

        with torch.no_grad():
            results.append([t.cpu() for t in run()])
        y, *last = run()
        results[-1] += [y.detach().cpu(), *(t.detach().cpu() for t in last)]
        inputs = [*leaves, *module.parameters()]
        loss = (y * weights.to(where)).sum()
        results[-1] += [t.cpu() for t in torch.autograd.grad(loss + sum(t.sin().sum() for t in last), inputs,
                                                             retain_graph=True)]
        # Of the last states alone: no gradient of y.
        results[-1] += [t.cpu() for t in torch.autograd.grad(last[-1].square().sum(), inputs)]
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected)


def test_second_gradients_of_many_steps():
    torch.manual_seed(8)
    layer = torch.nn.LSTM(4, 20)
    there = torch.nn.LSTM(4, 20).to(device)
    there.load_state_dict(layer.state_dict())
    x = torch.randn(9, 2, 4)
    seconds = []
    for where, module in (("cpu", layer), (device, there)):
        leaf = x.to(where).requires_grad_()
        first, = torch.autograd.grad(module(leaf)[0].square().sum(), leaf, create_graph=True)
        seconds.append([t.cpu() for t in torch.autograd.grad(first.square().sum(), [leaf, *module.parameters()])])
    torch.testing.assert_close(seconds[1], seconds[0])


def functional(kind, options):
    """A layer in both directions as a function of the input, the initial states and the parameters; and such."""
    torch.manual_seed(6)
    layer = getattr(torch.nn, kind)(3, 4, bidirectional=True, dtype=torch.float64, **options)
    sizes = (options.get("proj_size", 4), 4) if kind == "LSTM" else (4,)
    operands = [torch.randn(4, 2, 3, dtype=torch.float64),
                *(torch.randn(2, 2, size, dtype=torch.float64) for size in sizes), *layer.parameters()]
    names = [name for name, _ in layer.named_parameters()]

    def function(x, *rest):
        states, parameters = rest[:len(sizes)], dict(zip(names, rest[len(sizes):]))
        y, last = torch.func.functional_call(layer, parameters, (x, states if kind == "LSTM" else states[0]))
        return (y, *last) if kind == "LSTM" else (y, last)

    return function, [t.detach() for t in operands]


KINDS = [("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {}), ("GRU", {"bias": False}), ("RNN", {})]


@pytest.mark.parametrize("kind, options", KINDS)
def test_derivatives(kind, options):
    function, operands = functional(kind, options)
    there = [t.to(device).requires_grad_() for t in operands]
    assert torch.autograd.gradcheck(function, there, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, there, fast_mode=True)
    here = [t.requires_grad_() for t in operands]
    for a, b in zip(function(*here), function(*there)):   # of one result alone
        expected = torch.autograd.grad(a.sum(), here, retain_graph=True, allow_unused=True)
        for want, grad in zip(expected, torch.autograd.grad(b.sum(), there, retain_graph=True, allow_unused=True)):
            if want is None or grad is None:
                assert all(g is None or not g.any() for g in (want, grad))
            else:
                torch.testing.assert_close(grad.cpu(), want)


@pytest.mark.parametrize("kind, options", KINDS)
def test_forward_mode(kind, options):
    function, operands = functional(kind, options)
    tangents = [torch.randn_like(t) for t in operands]
    step = 1e-6
    above, below = (function(*(t + s * d for t, d in zip(operands, tangents))) for s in (step, -step))
    _, found = torch.func.jvp(function, tuple(t.to(device) for t in operands), tuple(t.to(device) for t in tangents))
    for a, b, tangent in zip(above, below, found):
        torch.testing.assert_close(tangent.cpu(), (a - b) / (2 * step), rtol=1e-5, atol=1e-7)


def test_autocast_trains_parameters_in_float32():
    torch.manual_seed(7)
    layer = torch.nn.LSTM(8, 8, 2)
    there = torch.nn.LSTM(8, 8, 2).to(device)
    there.load_state_dict(layer.state_dict())
    x = torch.randn(5, 3, 8)
    with torch.autocast("ocl", dtype=torch.bfloat16):
        y = there(x.to(device))[0]
    y.float().square().mean().backward()
    layer(x)[0].square().mean().backward()
    assert y.dtype == torch.bfloat16
    for p, q in zip(layer.parameters(), there.parameters()):
        assert q.grad.dtype == torch.float32
        assert (q.grad.cpu() - p.grad).abs().max() < 2**-5 * p.grad.abs().max()


def test_dropout_lies_between_layers():
    layer = torch.nn.GRU(4, 4, 2, dropout=1.0).to(device)   # the second layer sees zeros
    x = torch.randn(3, 2, 4, device=device)
    torch.testing.assert_close(layer(x)[0], layer(-x)[0])
    layer.eval()
    assert not torch.equal(layer(x)[0], layer(-x)[0])


def test_a_compiled_layer_is_pytorchs_decomposition():
    layer = torch.nn.LSTM(4, 3, 2, bidirectional=True).to(device)
    x = torch.randn(5, 2, 4, device=device)
    program = torch.export.export(layer, (x,), strict=False)
    torch.testing.assert_close(program.module()(x)[0], layer(x)[0])
    program = program.run_decompositions()
    assert not any("lstm" in str(node.target) or "thnn" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x)[0], layer(x)[0])


def test_layers_name_what_does_not_fit():
    layer = torch.nn.LSTM(4, 3).to(device)
    x, state = torch.zeros(5, 2, 4, device=device), torch.zeros(1, 2, 3, device=device)
    weights = list(layer.parameters())

    def lstm(x=x, states=(state, state), weights=weights):
        return torch.lstm(x, states, weights, True, 1, 0.0, False, False, False)

    for call, words in ((lambda: lstm(states=(state,)), "lstm: expected 2 initial states, got 1"),
                        (lambda: lstm(weights=weights[:3]), "lstm: expected 4 weights and biases for 1 layers"),
                        (lambda: lstm(x=x[0]), "lstm: expected an input of 3 dimensions"),
                        (lambda: lstm(x=x[:0]), "lstm: Expected sequence length to be larger than 0"),
                        (lambda: lstm(x=x[:, :1]), "lstm: expected initial states of .1, 1, hidden."),
                        (lambda: lstm(weights=[w.double() for w in weights]), "not at the same device or of the same")):
        with pytest.raises(RuntimeError, match=words):
            call()
    assert lstm()[0].shape == (5, 2, 3)


@pytest.mark.parametrize("outputs", [(True, False), (False, True), (True, True)])
def test_lstm_cell_gradients_of_either_output(outputs):
    torch.manual_seed(1)
    tensors = [torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4), torch.randn(16, 3), torch.randn(16, 4),
               torch.randn(16), torch.randn(16)]
    grads = []
    for where in ("cpu", device):
        x, h, c, wi, wh, bi, bh = [t.to(where).requires_grad_() for t in tensors]
        result = torch.lstm_cell(x, (h, c), wi, wh, bi, bh)
        loss = sum((r * r).sum() for r, used in zip(result, outputs) if used)
        grads.append([g if g is None else g.cpu() for g in
                      torch.autograd.grad(loss, [x, h, c, wi, wh, bi, bh], allow_unused=True)])
    for a, b in zip(*grads):
        torch.testing.assert_close(b, a)


def test_packed_sequences():
    torch.manual_seed(2)
    layer = torch.nn.GRU(3, 4)
    there = torch.nn.GRU(3, 4).to(device)
    there.load_state_dict(layer.state_dict())
    x = torch.randn(5, 3, 3)
    lengths = torch.tensor([5, 3, 1])
    pack = torch.nn.utils.rnn.pack_padded_sequence
    a, _ = layer(pack(x, lengths))
    packed = pack(x.to(device), lengths)
    assert packed.is_ocl
    b, _ = there(packed)
    torch.testing.assert_close(b.data.cpu(), a.data)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(b)
    torch.testing.assert_close(padded.cpu(), torch.nn.utils.rnn.pad_packed_sequence(a)[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cell", ["lstm_cell", "gru_cell"])
def test_cells_of_other_dtypes(cell, dtype):
    torch.manual_seed(3)
    gates = 4 if cell == "lstm_cell" else 3
    tensors = [torch.randn(*shape, dtype=dtype) for shape in
               ((2, 3), (2, 20), (2, 20), (gates * 20, 3), (gates * 20, 20), (gates * 20,), (gates * 20,))]
    outcomes = []
    for where in ("cpu", device):
        x, h, c, *weights = [t.to(where).requires_grad_() for t in tensors]
        state = (h, c) if cell == "lstm_cell" else h
        result = getattr(torch, cell)(x, state, *weights)
        result = result if isinstance(result, tuple) else (result,)
        used = [x, h, c, *weights] if cell == "lstm_cell" else [x, h, *weights]
        gradients = torch.autograd.grad(sum((r * r).sum() for r in result), used)
        outcomes.append([t.detach().cpu() for t in (*result, *gradients)])
    loose = {} if dtype == torch.float64 else dict(rtol=4 * torch.finfo(dtype).eps, atol=16 * torch.finfo(dtype).eps)
    for actual, expected in zip(outcomes[1], outcomes[0]):
        torch.testing.assert_close(actual, expected, **loose)
