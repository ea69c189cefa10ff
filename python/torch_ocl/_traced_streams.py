"""Streams and events of torch.ocl in compiled code: Dynamo has them in its graphs for torch.Stream, torch.Event and the
classes of devices that it knows by name. Since PyTorch 2.13; before, they break the graph.

What is computed in another stream is not part of Inductor's graphs: it copies some results into the layout that their
reader wants after the event that their stream was to be waited for by, and nothing makes the caller's stream wait for
those of a backward pass. Other backends get graphs whose nodes are marked with their streams.
"""

from __future__ import annotations

import functools

import torch

from torch_ocl.streams import DEVICE_TYPE

# Told by the version: Dynamo's module of streams cannot be imported while those adapted here are.
ARE_TRACED = torch.__version__ >= (2, 13)
FUNCTIONS = ("stream", "current_stream", "default_stream", "synchronize") if ARE_TRACED else ()


def handle_functions(module) -> None:
    """Of torch._dynamo.variables.torch."""
    if not ARE_TRACED:
        return
    former = module.TorchInGraphFunctionVariable._get_handlers

    @functools.cache
    def handlers():
        table = dict(former())
        whole = torch.accelerator
        table[torch.ocl.stream] = functools.partial(_enter, table[torch.ocl.stream])
        table[torch.ocl.current_stream] = functools.partial(_current_stream, table[whole.current_stream])
        table[torch.ocl.default_stream] = _default_stream
        table[torch.ocl.synchronize] = _synchronize
        return table

    module.TorchInGraphFunctionVariable._get_handlers = staticmethod(handlers)


def refuse_contexts(module) -> None:
    """Of torch._dynamo.variables.streams: entering a stream breaks the graph."""
    if not ARE_TRACED:
        return
    from torch._dynamo import exc

    former = module.StreamContextVariable.enter

    @functools.wraps(former)
    def enter(self, tx, *arguments):
        stream = self.get_stream()
        inductor = getattr(tx.output.compiler_fn, "compiler_name", "inductor") == "inductor"
        if stream.device.type == "ocl" and inductor:
            exc.unimplemented(gb_type="torch.ocl stream entered", context=f"{stream.value}", hints=[],
                              explanation="A graph is computed in the stream that is current when it is called.")
        return former(self, tx, *arguments)

    module.StreamContextVariable.enter = enter


def construct(module) -> None:
    """Of torch._dynamo.variables.user_defined: streams and events that are made in compiled code. Each call makes new
    ones, with Dynamo's functions, which have torch.Stream and torch.Event only."""
    from torch._dynamo import utils

    if not ARE_TRACED:
        return
    former = module.UserDefinedClassVariable._in_graph_classes

    @functools.cache
    def classes():
        return former() | {torch.ocl.Stream, torch.ocl.Event}

    module.UserDefinedClassVariable._in_graph_classes = staticmethod(classes)
    utils.build_stream = _of_ours(utils.build_stream, lambda *args, **kwargs: torch.ocl.Stream(*args, **kwargs))
    utils.build_event = _of_ours(utils.build_event, _event)


def _of_ours(build, make):
    @functools.wraps(build)
    @torch._disable_dynamo      # in whose code they are called
    def built(args, kwargs):
        device = kwargs.get("device", args[0] if args else None)
        of_another = isinstance(device, (str, torch.device)) and torch.device(device).type != "ocl"
        ours = torch.ocl.is_available() and not of_another and kwargs.get("device_type", DEVICE_TYPE) == DEVICE_TYPE
        return make(*args, **kwargs) if ours else build(args, kwargs)

    return built


def _event(*args, device=None, **kwargs):
    """By the arguments of torch.Event or of torch.ocl.Event, whose first one is no device."""
    return torch.ocl.Event(*(args if not args or isinstance(args[0], bool) else args[1:]), **kwargs)


def _index(tx, what: str, arguments, kwargs) -> int:
    """The device that a function is asked about, the current one by default."""
    from torch._dynamo.exc import unimplemented
    from torch_ocl import _state

    given = [*arguments, *kwargs.values()]
    index = None
    if len(given) < 2 and set(kwargs) <= {"device"} and all(x.is_python_constant() for x in given):
        index = _state.index_of(given[0].as_python_constant() if given else None)
    if index is None or index != torch.ocl.current_device():
        unimplemented(gb_type="torch.ocl stream of another device", context=f"{what}({given})",
                      explanation="Graphs have streams of the device that was current when they were traced.", hints=[])
    return index


def _enter(former, variable, tx, stream):
    from torch._dynamo.variables.ctx_manager import NullContextVariable

    if stream.is_python_constant() and stream.as_python_constant() is None:
        return NullContextVariable()
    return former(variable, tx, stream)


def _current_stream(former, variable, tx, *arguments, **kwargs):
    _index(tx, "current_stream", arguments, kwargs)
    return former(variable, tx)


def _default_stream(variable, tx, *arguments, **kwargs):
    from torch._dynamo.variables.base import VariableTracker

    index = _index(tx, "default_stream", arguments, kwargs)
    values = {"stream_id": 0, "device_index": index, "device_type": DEVICE_TYPE}
    return VariableTracker.build(tx, torch.ocl.Stream).call_function(
        tx, [], {name: VariableTracker.build(tx, value) for name, value in values.items()})


def _synchronize(variable, tx, *arguments, **kwargs):
    from torch._dynamo.variables.constant import ConstantVariable

    index = _index(tx, "synchronize", arguments, kwargs)
    tx.output.create_proxy("call_function", torch.ops.streams.synchronize_device, ("ocl", index), {})
    return ConstantVariable.create(None)
