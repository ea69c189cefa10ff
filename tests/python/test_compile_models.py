"""torch.compile on the device: networks, training, autocast, optimizers."""
import copy

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config

from compiled import check, check_module, device

randn = torch.randn


@pytest.fixture(autouse=True)
def nothing_falls_back():
    torch.ocl.reset_fallback_report()
    yield
    assert torch.ocl.fallback_report() == {}


def test_products_and_convolutions_with_what_follows_them():
    check(lambda x, y, b: F.relu(x @ y + b) * 2, randn(32, 64, requires_grad=True), randn(64, 16, requires_grad=True),
          randn(16, requires_grad=True), atol=3e-5, rtol=1.3e-6)
    check(lambda x, w, b: F.gelu(F.linear(x, w, b)), randn(32, 64, requires_grad=True),
          randn(16, 64, requires_grad=True),
          randn(16, requires_grad=True), atol=3e-5, rtol=1.3e-6)
    check(lambda x, w: F.silu(F.conv2d(x, w, padding=1, stride=2)), randn(2, 3, 16, 16, requires_grad=True),
          randn(8, 3, 3, 3, requires_grad=True), atol=3e-5, rtol=1.3e-6)
    check(lambda x, y: torch.bmm(x, y).softmax(-1), randn(4, 10, 12), randn(4, 12, 9))


def test_attention():
    q, k, v = (randn(2, 4, 16, 8, requires_grad=True) for _ in range(3))
    check(lambda q, k, v: F.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1, q, k, v, atol=2e-5,
          rtol=1.3e-6)
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, randn(16, 16), atol=2e-5, rtol=1.3e-6)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v,
                                                        is_causal=True).transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(24, 32)
        self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x))


def test_transformer():
    check_module(Transformer(), torch.randint(0, 50, (3, 24)), atol=1e-4, rtol=1e-4)


def test_transformer_of_any_length():
    torch._dynamo.reset()
    model = Transformer().to(device)
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    with torch.no_grad():
        compiled(torch.randint(0, 50, (3, 20), device=device))
        tokens = [torch.randint(0, 50, shape, device=device) for shape in ((2, 15), (5, 23), (4, 8))]
        expected = [model(t) for t in tokens]    # eager operators have programs of their own
        programs, graphs = torch.ocl.program_builds(), counters["stats"]["unique_graphs"]
        for t, e in zip(tokens, expected):
            torch.testing.assert_close(compiled(t).cpu(), e.cpu(), atol=1e-5, rtol=1e-4)
    assert torch.ocl.program_builds() == programs and counters["stats"]["unique_graphs"] == graphs


@pytest.mark.parametrize("dims", (1, 2))
def test_training_convolutions_of_any_length(dims):
    """No length of an image or a sound becomes a constant of a graph, backward passes included."""
    torch._dynamo.reset()
    conv = nn.Conv1d if dims == 1 else nn.Conv2d
    model = nn.Sequential(conv(3, 8, 5, 2), nn.GELU(), conv(8, 8, 3))
    ours = copy.deepcopy(model).to(device)
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, dynamic=True, fullgraph=True)
        graphs = counters["stats"]["unique_graphs"]
        for length in (24, 33):
            x = randn(2, 3, *[length] * dims)
            mine = x.to(device).requires_grad_()
            x.requires_grad_()
            for each in (ours, model):
                each.zero_grad()
            model(x).square().mean().backward()
            compiled(mine).square().mean().backward()
            torch.testing.assert_close(mine.grad.cpu(), x.grad)
            for a, b in zip(ours.parameters(), model.parameters()):
                torch.testing.assert_close(a.grad.cpu(), b.grad)
    assert counters["stats"]["unique_graphs"] == graphs + 1


def network(name):
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(num_classes=20)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def relative_error(a, b):
    return ((a.cpu().double() - b.double()).norm() / b.double().norm().clamp_min(1e-12)).item()


@pytest.mark.parametrize("name", ("resnet18", "mobilenet_v3_small"))
def test_inference(name):
    torch._dynamo.reset()
    model = network(name).eval()
    x = randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(x.double())
        counters.clear()
        actual = torch.compile(model.to(device), fullgraph=True)(x.to(device))
    assert relative_error(actual, expected) < 1e-4
    assert counters["graph_break"] == {} and counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("name", ("resnet18",))
def test_training_step(name):
    """Loss, gradients and running statistics of a step, against float64."""
    torch._dynamo.reset()
    exact = network(name).double().train()
    model = network(name).to(device).train()
    x, target = randn(4, 3, 64, 64), torch.randint(0, 20, (4,))
    counters.clear()
    compiled = torch.compile(model, fullgraph=True)
    loss = F.cross_entropy(compiled(x.to(device)), target.to(device))
    loss.backward()
    expected = F.cross_entropy(exact(x.double()), target)
    expected.backward()
    assert counters["graph_break"] == {}
    torch.testing.assert_close(loss.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    total = sum(p.grad.norm() ** 2 for p in exact.parameters()) ** 0.5
    for (name, a), b in zip(model.named_parameters(), exact.parameters()):
        error = (a.grad.cpu().double() - b.grad).norm() / (b.grad.norm() + 1e-3 * total)
        assert error < 2e-2, f"{name}: {error}"
    for (name, a), b in zip(model.named_buffers(), exact.buffers()):
        torch.testing.assert_close(a.cpu().double(), b.double(), rtol=1e-3, atol=1e-4,
                                   msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_autocast(dtype):
    torch._dynamo.reset()
    model = Transformer()
    tokens = torch.randint(0, 50, (3, 24))
    expected = model(tokens)
    ours = copy.deepcopy(model).to(device)

    def step(tokens):
        with torch.autocast("ocl", dtype=dtype):
            return ours(tokens)

    actual = torch.compile(step, fullgraph=True)(tokens.to(device))
    assert actual.dtype == dtype
    assert relative_error(actual, expected) < 2e-2
    actual.float().square().mean().backward()
    expected.square().mean().backward()
    for a, b in zip(ours.parameters(), model.parameters()):
        assert relative_error(a.grad, b.grad) < 8e-2


@pytest.mark.parametrize("kind, options", [
    (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.01}), (torch.optim.SGD,
                                                                 {"momentum": 0.9, "nesterov": True, "foreach": True}),
    (torch.optim.Adam, {"foreach": True}), (torch.optim.AdamW, {"fused": True}), (torch.optim.RMSprop, {})],
    ids=["sgd", "sgd_foreach", "adam_foreach", "adamw_fused", "rmsprop"])
def test_optimizer_steps(kind, options):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))
    ours = copy.deepcopy(model).to(device)
    x, y = randn(16, 10), randn(16, 5)

    def train(model, x, y, compiled):
        options_here = {k: v for k, v in options.items() if k != "fused" or x.device.type == "ocl"}
        optimizer = kind(model.parameters(), lr=0.01, **options_here)
        step = torch.compile(optimizer.step) if compiled else optimizer.step
        for _ in range(4):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            step()

    train(model, x, y, False)
    train(ours, x.to(device), y.to(device), True)
    for a, b in zip(ours.parameters(), model.parameters()):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", (torch.optim.Adam, torch.optim.RMSprop, torch.optim.SGD))
def test_a_compiled_step_with_groups_of_parameters_keeps_their_state(kind):
    """The learning rate changes, so that code compiled anew goes on with the counters of the former one."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)).double()
    ours = copy.deepcopy(model).to(device)

    def train(model, compiled):
        torch._dynamo.reset()
        optimizer = kind([{"params": list(model[0].parameters()), "lr": 0.02}, {"params": list(model[2].parameters())}],
                         lr=0.01)

        def step(x, y):
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = torch.compile(step) if compiled else step
        generator = torch.Generator().manual_seed(7)
        losses = []
        for i in range(4):
            if i == 2:
                optimizer.param_groups[0]["lr"] = 0.05
            x = torch.randn(8, 6, generator=generator, dtype=torch.float64).to(next(model.parameters()).device)
            losses.append(run(x, (x[:, 0] > 0).long()).item())
        return losses, optimizer.state_dict()["state"]

    (losses, state), (expected, expected_state) = train(ours, True), train(model, False)
    tolerances = dict(atol=1e-5, rtol=1e-4)     # beta**step is float32
    torch.testing.assert_close(losses, expected, **tolerances)
    for a, b in zip(ours.parameters(), model.parameters()):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), **tolerances)
    assert state.keys() == expected_state.keys()
    for i, values in expected_state.items():
        assert state[i].keys() == values.keys()
        for name, value in values.items():
            if value is not None:
                assert state[i][name].device.type == "ocl"
                torch.testing.assert_close(state[i][name].cpu(), value, **tolerances)


def test_whole_training_loop_lowers_the_loss():
    torch._dynamo.reset()
    model = Transformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, 50, (4, 24), device=device)
    compiled = torch.compile(model)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_channels_last_network():
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                           nn.Conv2d(8, 4, 1))
    module = module.to(memory_format=torch.channels_last)
    check_module(module, randn(2, 3, 12, 12).contiguous(memory_format=torch.channels_last), atol=1e-4, rtol=1e-4)


def test_control_flow_and_subgraphs():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,))

    check(f, torch.rand(20))
    check(f, -torch.rand(20))


def test_checkpointing():
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(8, 8)
    ours = copy.deepcopy(layer).to(device)
    x = randn(4, 8)
    with config.patch(force_disable_caches=True):
        y = torch.compile(lambda x: checkpoint(lambda t: ours(t).relu(), x, use_reentrant=False))(x.to(device))
    torch.testing.assert_close(y.cpu(), layer(x).relu())
    y.sum().backward()
    layer(x).relu().sum().backward()
    torch.testing.assert_close(ours.weight.grad.cpu(), layer.weight.grad)


@pytest.mark.parametrize("eager_numbers", [False, True])
def test_checkpointing_draws_the_same_numbers_again(eager_numbers):
    from torch.utils.checkpoint import checkpoint

    def attend(x):      # linear in its values, so that sum(y) = sum(gradient * x) only with the forward pass's numbers
        return F.scaled_dot_product_attention(torch.zeros_like(x), torch.zeros_like(x), x, dropout_p=0.5)

    def forgotten(x):
        return checkpoint(lambda x: F.dropout(attend(x) * 2, 0.5), x, use_reentrant=False)

    x = torch.rand(2, 3, 16, 8).to(device).requires_grad_()
    seen = []
    with config.patch(force_disable_caches=True, fallback_random=eager_numbers):
        torch._dynamo.reset()
        compiled = torch.compile(forgotten, fullgraph=True)
        for function in (compiled, compiled, forgotten):
            torch.manual_seed(min(len(seen), 1))    # the eager call draws what the second compiled one does
            y = function(x)
            state = torch.ocl.get_rng_state()
            gradient, = torch.autograd.grad(y.sum(), x)
            assert torch.equal(torch.ocl.get_rng_state(), state)
            torch.testing.assert_close(y.sum(), (gradient * x).sum(), atol=1e-3, rtol=1e-5)
            seen.append(y.detach())
    assert not torch.equal(seen[0], seen[1])
    if eager_numbers:
        torch.testing.assert_close(seen[1], seen[2])
