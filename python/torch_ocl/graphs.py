"""Graphs: the work of one stream, recorded once and replayed with little work of the host.

A capture keeps kernels, copies and fills instead of doing them, with the addresses that they have. Inputs are static
tensors that are written to before a replay, outputs are tensors that a replay overwrites. What cannot be recorded says
so: reads to the host (`.item()`, boolean indexing), synchronisation, random numbers, other streams that wait.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.utils._pytree as pytree

from torch_ocl import _state, streams
from torch_ocl._memory_tools import _pool_number

__all__ = ["CUDAGraph", "Graph", "OCLGraph", "XPUGraph", "export_dot", "export_graph_data", "graph",
           "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables",
           "register_graph_capture_end_hook", "register_graph_capture_start_hook", "register_graph_destroy_hook",
           "register_graph_instantiate_hook", "register_graph_replay_end_hook", "register_graph_replay_start_hook"]

_hooks: dict[str, OrderedDict] = {}


def _register(moment: str):
    def register(hook):
        """A function of the graph that is called at that moment; the returned handle's remove() ends it."""
        from torch.utils.hooks import RemovableHandle

        hooks = _hooks.setdefault(moment, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    register.__name__ = register.__qualname__ = f"register_graph_{moment}_hook"
    return register


register_graph_capture_start_hook = _register("capture_start")
register_graph_capture_end_hook = _register("capture_end")
register_graph_instantiate_hook = _register("instantiate")
register_graph_replay_start_hook = _register("replay_start")
register_graph_replay_end_hook = _register("replay_end")
register_graph_destroy_hook = _register("destroy")


class OCLGraph:
    """A captured graph. Capture with torch.ocl.graph(g), run with g.replay()."""

    def __init__(self, keep_graph: bool = False):
        self._graph = _state.c().Graph()

    def _tell(self, moment: str) -> None:
        for hook in tuple(_hooks.get(moment, {}).values()):
            hook(self)

    def capture_begin(self, pool=None, capture_error_mode: str = "global", check_input_liveness: bool = False) -> None:
        """Records the current stream, which must not be the default one, from now on."""
        if capture_error_mode not in ("default", "global", "thread_local", "relaxed"):
            raise ValueError(f"capture_begin: capture_error_mode is not known: {capture_error_mode!r}")
        self._tell("capture_start")
        self._graph.capture_begin(_pool_number(pool))

    def capture_end(self) -> None:
        self._graph.capture_end()
        self._tell("capture_end")
        self._tell("instantiate")

    def instantiate(self) -> None:
        """Does nothing: a capture can be replayed as soon as it ends."""

    def replay(self) -> None:
        """Enqueues the recorded work on the current stream."""
        if not _hooks:
            return self._graph.replay()
        self._tell("replay_start")
        self._graph.replay()
        self._tell("replay_end")

    def reset(self) -> None:
        """Forgets the capture and gives its pool back."""
        self._tell("destroy")
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """What another graph's pool= takes to share this one's memory."""
        return (0, self._graph.pool())

    def enable_debug_mode(self) -> None:
        """Does nothing: the commands are always there to be dumped."""

    def debug_dump(self, debug_path: str) -> None:
        """The commands as a Graphviz file."""
        self._graph.dump(debug_path)

    def commands(self) -> list[dict]:
        """The recorded kernels, copies and fills in their order."""
        names = ("name", "global", "local", "bytes")
        return [dict(zip(names, command)) for command in self._graph.commands()]

    def raw_cuda_graph(self):
        raise NotImplementedError("raw_cuda_graph: an ocl graph is a list of OpenCL commands; see commands()")

    raw_cuda_graph_exec = raw_cuda_graph


CUDAGraph = XPUGraph = Graph = OCLGraph


def is_current_stream_capturing() -> bool:
    return _state.extension is not None and _state.extension.is_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A pool that several graphs may share, as their pool=."""
    return (0, _state.c().new_memory_pool())


def export_dot(graph: OCLGraph, path: str) -> None:
    """The commands of a graph as a Graphviz file."""
    graph.debug_dump(path)


def export_graph_data(graph: OCLGraph) -> list[dict]:
    """The commands of a graph."""
    return graph.commands()


class graph:  # noqa: N801 (named like torch.cuda.graph)
    """Context manager: captures what is enqueued inside into a graph, on a stream of its own or a given one."""

    default_capture_stream = None

    def __init__(self, cuda_graph: OCLGraph, pool=None, stream=None, capture_error_mode: str = "global",
                 enable_annotations: bool = False, check_input_liveness: bool = False):
        if stream is None:
            if type(self).default_capture_stream is None:
                type(self).default_capture_stream = streams.Stream()
            stream = type(self).default_capture_stream
        self.ocl_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream
        self.stream_ctx = streams.StreamContext(stream)

    def __enter__(self) -> None:
        torch.ocl.synchronize()
        torch.ocl.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.ocl_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, kind, *_) -> None:
        try:
            self.ocl_graph.capture_end()
        finally:
            self.stream_ctx.__exit__()
        if kind is not None:
            self.ocl_graph.reset()


def make_graphed_callables(callables, sample_args, num_warmup_iters: int = 3, allow_unused_input: bool = False,
                           pool=None, **_):
    """Modules or functions as graphs: forward and backward are captured with sample_args, and the returned callables
    replay them. See torch.cuda.make_graphed_callables."""
    if torch.is_autocast_enabled("ocl") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set "
                           "`cache_enabled=False`.")
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    parts = [_Part(function, arguments, allow_unused_input) for function, arguments in zip(callables, sample_args)]
    shared = graph_pool_handle() if pool is None else pool
    torch.ocl.synchronize()
    stream = streams.Stream()
    with streams.StreamContext(stream):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.run_once()
    torch.ocl.synchronize()
    # In the order in which they will run, since they share memory.
    for part in parts:
        part.capture_forward(shared, stream)
    for part in reversed(parts):
        part.capture_backward(shared, stream)
    graphed = tuple(part.as_callable() for part in parts)
    return graphed[0] if single else graphed


class _Part:
    """One callable of make_graphed_callables."""

    def __init__(self, function, arguments, allow_unused_input: bool):
        self.function, self.arguments, self.allow_unused = function, arguments, allow_unused_input
        flat = pytree.arg_tree_leaves(*arguments)
        if not all(isinstance(argument, torch.Tensor) for argument in flat):
            raise TypeError("make_graphed_callables: sample_args must hold tensors only")
        parameters = ()
        if isinstance(function, torch.nn.Module):
            if function._forward_hooks or function._forward_pre_hooks or function._backward_hooks:
                raise RuntimeError("make_graphed_callables: register a module's hooks after it was graphed")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("make_graphed_callables: a module's buffers must not require grad")
            parameters = tuple(function.parameters())
        self.argument_count = len(flat)
        self.parameters = parameters
        self.inputs = tuple(flat) + parameters
        self.needing_grad = tuple(tensor for tensor in self.inputs if tensor.requires_grad)
        self.forward_graph, self.backward_graph = OCLGraph(), OCLGraph()

    def run_once(self) -> None:
        outputs = [o for o in pytree.tree_leaves(self.function(*self.arguments)) if o.requires_grad]
        if outputs:
            torch.autograd.grad(outputs, self.needing_grad, [torch.empty_like(o) for o in outputs],
                                only_inputs=True, allow_unused=self.allow_unused)

    def capture_forward(self, pool, stream) -> None:
        with graph(self.forward_graph, pool=pool, stream=stream):
            outputs = self.function(*self.arguments)
        self.outputs, self.structure = pytree.tree_flatten(outputs)

    def capture_backward(self, pool, stream) -> None:
        self.output_grads = [torch.empty_like(o) if o.requires_grad else None for o in self.outputs]
        of_outputs = [o for o in self.outputs if o.requires_grad]
        grads = ()
        if of_outputs:
            with graph(self.backward_graph, pool=pool, stream=stream):
                grads = torch.autograd.grad(of_outputs, self.needing_grad,
                                            [g for g in self.output_grads if g is not None], only_inputs=True,
                                            allow_unused=self.allow_unused)
        grads = iter(grads)
        self.input_grads = tuple(next(grads) if of_outputs and i.requires_grad else None for i in self.inputs)

    def as_callable(self):
        part = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                for static, given in zip(part.inputs[:part.argument_count], inputs):
                    if static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                part.forward_graph.replay()
                return tuple(output.detach() for output in part.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, *grads):
                for static, given in zip(part.output_grads, grads):
                    if static is not None and given is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                part.backward_graph.replay()
                return tuple(None if grad is None else grad.detach() for grad in part.input_grads)

        def run(*arguments):
            outputs = Graphed.apply(*pytree.arg_tree_leaves(*arguments), *part.parameters)
            return pytree.tree_unflatten(list(outputs), part.structure)

        if not isinstance(self.function, torch.nn.Module):
            return run
        module, eager, training = self.function, self.function.forward, self.function.training

        def forward(*arguments):
            return run(*arguments) if module.training == training else eager(*arguments)

        module.forward = forward
        return module
