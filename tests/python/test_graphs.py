"""Graphs: captured work does the same as eager work, again and again, and what cannot be captured says so."""

import copy

import pytest
import torch

from since import since


def test_replay_computes_with_new_inputs(device):
    static = torch.zeros(64, 32, device=device)
    weight = torch.randn(32, 16, device=device)

    def work(x):
        return torch.softmax(torch.relu(x @ weight), -1).sum(0)

    work(static)
    graph = torch.ocl.CUDAGraph()
    with torch.ocl.graph(graph):
        assert torch.ocl.is_current_stream_capturing()
        output = work(static)
    assert not torch.ocl.is_current_stream_capturing()
    for seed in range(3):
        torch.manual_seed(seed)
        fresh = torch.randn(64, 32)
        static.copy_(fresh)
        graph.replay()
        torch.testing.assert_close(output.cpu(), work(fresh.to(device)).cpu())


def test_capturing_does_not_execute(device):
    x = torch.zeros(4, device=device)
    graph = torch.ocl.CUDAGraph()
    with torch.ocl.graph(graph):
        x += 1
    assert x.tolist() == [0] * 4
    graph.replay()
    graph.replay()
    assert x.tolist() == [2] * 4
    assert len(graph.commands()) >= 1


def test_a_training_step(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    expected = [p.clone() for p in model.parameters()]
    model.to(device)
    data, target = torch.zeros(10, 8, device=device), torch.zeros(10, dtype=torch.long, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        return loss

    step()
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), expected):
            parameter.copy_(start)
    graph = torch.ocl.CUDAGraph()
    with torch.ocl.graph(graph):
        loss = step()
    reference = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    with torch.no_grad():
        for parameter, start in zip(reference.parameters(), expected):
            parameter.copy_(start)
    reference_optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for _ in range(4):
        x, y = torch.randn(10, 8), torch.randint(0, 3, (10,))
        data.copy_(x)
        target.copy_(y)
        graph.replay()
        reference_optimizer.zero_grad()
        reference_loss = torch.nn.functional.cross_entropy(reference(x), y)
        reference_loss.backward()
        reference_optimizer.step()
        torch.testing.assert_close(loss.cpu(), reference_loss.detach())
    for ours, theirs in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach())


def test_make_graphed_callables(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4)).to(device)
    sample = torch.randn(3, 6, device=device, requires_grad=True)
    x = torch.randn(3, 6, device=device, requires_grad=True)
    eager = copy.deepcopy(model)   # the graphed one must not have been used on another stream
    expected = eager(x)
    expected_grads = torch.autograd.grad(expected.square().sum(), [x, *eager.parameters()])
    graphed = torch.ocl.make_graphed_callables(model, (sample,))
    for _ in range(2):
        output = graphed(x)
        torch.testing.assert_close(output, expected)
        grads = torch.autograd.grad(output.square().sum(), [x, *model.parameters()])
        for ours, theirs in zip(grads, expected_grads):
            torch.testing.assert_close(ours, theirs)


def test_graphs_share_a_pool_and_memory_stays(device):
    pool = torch.ocl.graph_pool_handle()
    x = torch.ones(1000, device=device)
    first, second = torch.ocl.CUDAGraph(), torch.ocl.CUDAGraph()
    with torch.ocl.graph(first, pool=pool):
        a = x * 2
    with torch.ocl.graph(second, pool=pool):
        b = a + 1
    assert first.pool() == second.pool() == pool
    torch.ocl.empty_cache()
    torch.full((1000,), 7.0, device=device)
    first.replay()
    second.replay()
    assert b.sum().item() == 3000
    first.reset()
    second.reset()


def test_pinned_memory_is_read_at_each_replay(device):
    host = torch.ones(5).pin_memory()
    x = torch.zeros(5, device=device)
    graph = torch.ocl.CUDAGraph()
    with torch.ocl.graph(graph):
        x.copy_(host, non_blocking=True)
        x.mul_(2)
    host.fill_(3)
    graph.replay()
    assert x.tolist() == [6] * 5


def test_what_cannot_be_captured_says_so(device):
    x = torch.ones(4, device=device)
    for operation, text in ((lambda: x.sum().item(), "cannot be recorded"),
                            (lambda: torch.ocl.synchronize(), "cannot be recorded"),
                            (lambda: torch.rand(3, device=device), "random numbers cannot be drawn"),
                            (lambda: torch.ocl.Stream().wait_stream(torch.ocl.current_stream()), "one queue")):
        graph = torch.ocl.CUDAGraph()
        with pytest.raises(RuntimeError, match=text):
            with torch.ocl.graph(graph):
                operation()
    assert (x + 1).sum().item() == 8
    graph = torch.ocl.CUDAGraph()
    with pytest.raises(RuntimeError, match="no finished capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="default stream"):
        graph.capture_begin()


@since("2.12", "torch.accelerator.Graph", hasattr(torch.accelerator, "Graph"))
def test_accelerator_graph(device, tmp_path):
    x = torch.zeros(3, device=device)
    graph = torch.accelerator.Graph()
    with torch.ocl.Stream(), graph:
        x += 1
    graph.replay()
    assert x.tolist() == [1] * 3
    other = torch.ocl.CUDAGraph()
    with torch.ocl.graph(other):
        x += 1
    torch.ocl.graphs.export_dot(other, str(tmp_path / "graph.dot"))
    assert "digraph" in (tmp_path / "graph.dot").read_text()


def test_hooks(device):
    seen = []
    handles = [getattr(torch.ocl.graphs, f"register_graph_{moment}_hook")(lambda _, moment=moment: seen.append(moment))
               for moment in ("capture_start", "capture_end", "replay_start", "replay_end")]
    graph = torch.ocl.CUDAGraph()
    with torch.ocl.graph(graph):
        torch.ones(2, device=device)
    graph.replay()
    for handle in handles:
        handle.remove()
    graph.replay()
    assert seen == ["capture_start", "capture_end", "replay_start", "replay_end"]
