"""torch.compile on the device with Inductor's options that concern every kernel."""
import pytest
import torch
from torch._inductor import config, metrics

from torch_ocl.inductor.versions import outputs_are_exact

from compiled import check, device

OPTIONS = ({"benchmark_fusion": True}, {"combo_kernels": True, "benchmark_combo_kernel": True},
           {"max_autotune": True, "benchmark_fusion": True}, {"nan_asserts": True},
           {"nan_asserts": True, "combo_kernels": True}, {"nan_asserts": True, "cpp_wrapper": True},
           {"comment_origin": True}, {"comment_origin": True, "combo_kernels": True},
           {"runtime_triton_nan_asserts": True}, {"annotate_training": True})


def several(x, y):
    a = x.sin() + y
    return torch.relu(a), (a * 2).sum(1), y.cos().sum(0), torch.arange(7, device=x.device) * 2


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options))
def test_results_stay(options):
    with config.patch(options):
        check(several, torch.randn(40, 30), torch.randn(40, 30), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("number", (-1.0, 0.0))
def test_nan_asserts_name_the_tensor(number):
    torch._dynamo.reset()
    with config.patch(nan_asserts=True, force_disable_caches=True), pytest.raises(AssertionError, match="holds NaN"):
        torch.compile(torch.log)(torch.tensor([1.0, number], device=device))


def test_kernels_in_one_launch_count_as_one():
    metrics.reset()
    check(lambda x, y: torch._foreach_mul([x, y], 2.5), torch.randn(30), torch.randn(40))
    assert metrics.generated_kernel_count == 1


def test_tuning_of_products_with_expanded_operands():
    with config.patch(max_autotune=True):
        check(lambda x, w: torch.bmm(x.expand(3, 4, 5), w.expand(3, 5, 6)), torch.randn(4, 5), torch.randn(1, 5, 6),
              atol=1e-5, rtol=1e-5)
        check(lambda x, w: x @ w.expand(5, 6), torch.randn(0, 5), torch.randn(6))


@pytest.mark.parametrize("dynamic", (False, True))
def test_what_a_forward_pass_keeps_lies_as_traced_where_sizes_are_dynamic(dynamic, monkeypatch):
    """In Mamba-2 a kept part of a tensor became one of its own, whose strides were constants of the backward pass."""
    from torch._inductor.graph import GraphLowering

    strict = {}
    output = GraphLowering.output

    def recorded(graph, *arguments):
        strict["backward" if graph.is_backward else "inference" if graph.is_inference else "forward"] = \
            outputs_are_exact()
        return output(graph, *arguments)

    monkeypatch.setattr(GraphLowering, "output", recorded)
    check(lambda x: x.sin() * x.sum(), torch.randn(5, 7, requires_grad=True), dynamic=dynamic)
    check(lambda x: x.sin(), torch.randn(5, 7), dynamic=dynamic)
    assert strict == {"forward": dynamic, "backward": False, "inference": False}


def test_what_tells_of_devices_is_a_constant():
    """PyTorch breaks the graph at functions that it does not know by name."""
    def function(x):
        if torch.ocl.is_available() and torch.ocl.is_initialized() and torch.ocl.is_bf16_supported():
            x = x + len(torch.ocl.get_device_name(0)) + torch.ocl.get_device_capability()[0]
        return x * torch.ocl.device_count() + torch.ocl.current_device()

    torch._dynamo.reset()
    x = torch.ones(3, device=device)
    assert torch.equal(torch.compile(function, fullgraph=True)(x), function(x))
