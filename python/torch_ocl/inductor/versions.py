"""What Inductor has otherwise in older versions of PyTorch than the newest one, for which the rest of this package is
written. Which version it is is told by what is there."""

from __future__ import annotations

import contextlib
import functools

import sympy

import torch
from torch._inductor import config, ir
from torch._inductor.graph import GraphLowering
from torch._inductor.ops_handler import OpsHandler
from torch._inductor.sizevars import SizeVarAllocator
from torch.fx.experimental import symbolic_shapes

# Whether values made of indices are asked for apart from indices, which 32 bits are enough for (2.11: not).
VALUES_APART = hasattr(OpsHandler, "value_expr")

# Inductor takes a CPU's rows of more numbers than this in Welford's formula (2.11: all rows).
TWO_STEP_VARIANCE = getattr(config.cpp, "use_two_step_variance_threshold", 1024)

if hasattr(symbolic_shapes, "optimization_hint"):
    optimization_hint = symbolic_shapes.optimization_hint
else:       # 2.11
    def optimization_hint(size) -> int:
        return symbolic_shapes.size_hint(size, fallback=config.unbacked_symint_fallback)

    def _of_identities(hint):
        """Where Identity(3) is no number, of which there is no hint."""
        @functools.wraps(hint)
        def hint_of(variables, expr, fallback=None) -> int:
            seen = expr.expand(identity=True) if isinstance(expr, sympy.Expr) else expr
            return hint(variables, seen, fallback)
        return hint_of

    SizeVarAllocator.optimization_hint = _of_identities(SizeVarAllocator.optimization_hint)


def replace_opcount_threshold(ours) -> None:
    """ours(loops, threshold) says how many operations may be computed anew rather than be written to memory, where
    Inductor would say `threshold`."""
    if hasattr(ir.Loops, "get_realize_opcount_threshold"):
        former = ir.Loops.get_realize_opcount_threshold
        ir.Loops.get_realize_opcount_threshold = lambda loops, threshold=None: ours(loops, former(loops, threshold))
        return
    former_decision = ir.Loops.has_large_inner_fn       # before 2.14

    def has_large_inner_fn(loops, threshold=None) -> bool:
        usual = config.realize_opcount_threshold
        usual = max(threshold or 0, config._realize_opcount_threshold_default if usual is None else usual)
        found = ours(loops, usual)
        return former_decision(loops, threshold) if found == usual else loops.inner_fn_opcount().num_ops > found

    ir.Loops.has_large_inner_fn = has_large_inner_fn


_SHIPPED = config.realize_opcount_threshold     # None since 2.13


def chose_opcount_threshold() -> bool:
    return config.realize_opcount_threshold != _SHIPPED


def config_patches(scheduling, schedule) -> dict:
    """Options that a kernel's operations bring with them (2.11: none)."""
    collect = getattr(scheduling, "_collect_config_patches", None)
    return collect(schedule) if collect is not None else {}


if hasattr(config, "strict_output_strides"):
    def exact_outputs(exact: bool):
        """In it what graphs return lies as it was traced, views too."""
        return config.patch(strict_output_strides=exact or config.strict_output_strides)

    def outputs_are_exact() -> bool:
        return config.strict_output_strides
else:       # before 2.14
    _exact = [False]

    @contextlib.contextmanager
    def exact_outputs(exact: bool):
        former, _exact[0] = _exact[0], exact or _exact[0]
        try:
            yield
        finally:
            _exact[0] = former

    def outputs_are_exact() -> bool:
        return _exact[0]

    def _exactly(run_node):
        @functools.wraps(run_node)
        def lowered(graph, node):
            result = run_node(graph, node)
            value = node.meta.get("val")
            if not (_exact[0] and isinstance(value, torch.Tensor) and isinstance(result, ir.TensorBox)
                    and value.dim() > 0 and any(user.op == "output" for user in node.users)):
                return result
            strides = graph.user_visible_output_strides.get(node, value.stride())
            if not strides or symbolic_shapes.free_unbacked_symbols(strides):
                return result
            with ir.IRNode.current_origins({node}), graph.set_current_node(node):
                exact = ir.ExternKernel.require_exact_strides(result, strides)
            graph.register_users_of(exact)
            return exact

        return lowered

    GraphLowering.run_node = _exactly(GraphLowering.run_node)
