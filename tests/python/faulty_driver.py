"""Work during which calls of OpenCL fail, one after another: run by test_faults.py in a process of its own, whose
loader has the layer of tests/faults between the library and the driver. Prints how many failures the work had.

    python faulty_driver.py LAYER WORK STRIDE
"""
import ctypes
import sys

import numpy as np
import torch

# Error codes of OpenCL by the call that gives them.
FAULTS = [("clCreateBuffer", -4), ("clSetKernelArg", -5), ("clEnqueueNDRangeKernel", -5),
          ("clEnqueueNDRangeKernel", -36), ("clEnqueueReadBuffer", -5), ("clEnqueueWriteBuffer", -6),
          ("clEnqueueCopyBuffer", -5), ("clEnqueueFillBuffer", -5), ("clEnqueueMapBuffer", -12),
          ("clEnqueueMarkerWithWaitList", -6), ("clEnqueueBarrierWithWaitList", -6), ("clGetEventInfo", -5),
          ("clGetEventProfilingInfo", -7), ("clWaitForEvents", -5), ("clFlush", -5), ("clFinish", -5),
          ("clSetEventCallback", -6), ("clCreateUserEvent", -6)]
device = "ocl:0"


class Training:
    """A step of training and its new weights."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                                         torch.nn.Flatten(), torch.nn.Linear(144, 5)).to(device)
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.x, self.y = torch.randn(4, 3, 8, 8), torch.arange(4)

    def __call__(self):
        self.model.load_state_dict(self.start)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(self.x.to(device)), self.y.to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        optimizer.step()
        return torch.cat([p.detach().flatten() for p in self.model.parameters()]).cpu()


class Copies:
    """Host and device, pinned and not, on two streams with events between them."""

    def __init__(self):
        self.x = torch.arange(3000.0)
        self.stream = torch.ocl.Stream(device)

    def __call__(self):
        pinned = self.x.pin_memory()
        with torch.ocl.stream(self.stream):
            a = pinned.to(device, non_blocking=True)
            b = a[::3].contiguous() + self.x.to(device)[:1000]
        event = self.stream.record_event()
        torch.ocl.current_stream().wait_event(event)
        start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
        start.record()
        c = b.double().cumsum(0).float()
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) >= 0
        b.record_stream(torch.ocl.current_stream())
        back = torch.empty(1000, pin_memory=True)
        back.copy_(c, non_blocking=True)
        torch.ocl.synchronize()
        return torch.cat([back, b.cpu()])


class Graphs:
    """A captured graph, replayed."""

    def __init__(self):
        self.x = torch.arange(512.0).reshape(8, 64).to(device)

    def __call__(self):
        graph = torch.ocl.Graph()
        with torch.ocl.graph(graph):
            y = torch.softmax(self.x @ self.x.t(), 1)
        graph.replay()
        return y.cpu()


class Profiled:
    """The profiler around some work."""

    def __init__(self):
        self.x = torch.arange(100.0).to(device)

    def __call__(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profile:
            y = (self.x * 2).sort(descending=True).values.sum().cpu()
        profile.key_averages()
        return y


class Indices:
    """Kernels that may find an index out of range, and random numbers."""

    def __init__(self):
        self.table = torch.arange(40.0).reshape(10, 4).to(device)

    def __call__(self):
        torch.manual_seed(7)
        index = torch.randint(0, 10, (32,), device=device)
        rows = torch.nn.functional.embedding(index, self.table)
        return torch.nn.functional.dropout(rows, 0.5).cpu()


class Session:
    """A run of an ONNX model: a net's, since that needs no other package."""

    def __init__(self):
        import clprim

        net = clprim.Net()
        net.add_input("x", (2, 3, 8, 8))
        net.add("Convolution2D", "conv", ["x"], ["h"], {"channels_out": 4, "kernel": 3, "activation": "relu"})
        net.add("GlobalPooling", "pool", ["h"], ["p"], {"mode": "avg"})
        net.add("InnerProduct", "fc", ["p"], ["y"], {"outputs": 5})
        net.mark_output("y")
        net.setup()
        net.initialize_parameters(0)
        self.session = clprim.Session(net.to_onnx())
        self.x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f")

    def __call__(self):
        return torch.from_numpy(self.session.run({"x": self.x})["y"].copy())


class Compiled:
    """A compiled graph: generated kernels beside a product of the library."""

    def __init__(self):
        self.x = torch.randn(16, 32).to(device)
        self.function = torch.compile(lambda x: torch.nn.functional.layer_norm(x @ x.t(), (16,)).relu().sum(1))

    def __call__(self):
        return self.function(self.x).cpu()


def sweep(work, layer, stride):
    expected = work()
    assert torch.equal(work(), expected)
    torch.ocl.synchronize()
    before, failures = torch.ocl.memory_allocated(), 0
    for call, code in FAULTS:
        nth = 1
        while True:
            case, result = f"{call} call {nth} fails with {code}", None
            layer.fault_arm(call.encode(), nth, code)
            try:
                result = work()
            except Exception as error:   # of clprim, or one that PyTorch makes of it
                assert call in str(error), f"{case}: {error}"
            failed = layer.fault_disarm()
            if not failed:
                break
            failures += 1
            assert result is None or torch.equal(result, expected), f"{case}: a wrong result"
            assert torch.equal(work(), expected), f"{case}: wrong afterwards"
            torch.ocl.synchronize()
            assert torch.ocl.memory_allocated() == before, \
                f"{case}: {torch.ocl.memory_allocated() - before} bytes are lost"
            nth += stride
    return failures


def main(path, name, stride):
    layer = ctypes.CDLL(path)
    torch.ocl.init()
    assert layer.fault_layer_in_use(), "the loader does not use the layer"
    layer.fault_arm.argtypes = ctypes.c_char_p, ctypes.c_ulong, ctypes.c_int
    layer.fault_disarm.restype = ctypes.c_ulong
    print(sweep(globals()[name](), layer, stride))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
