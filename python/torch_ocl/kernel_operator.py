"""A kernel of the caller's own as an operator of PyTorch: torch_ocl.kernel_op."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from torch_ocl.inductor.types import C_TYPES, MEMORY_NAMES
from torch_ocl.user_kernel import build, signature


def kernel_op(name, source, kernel=None, *, options="", types=None, values=None, outputs=None, mutates=(),
              global_size=None, local_size=None, backward=None, vmap=None):
    """An operator from a kernel in OpenCL C, with which autograd, torch.compile, torch.export and torch.func work.

        scale = torch_ocl.kernel_op("mine::scale", '''
            __kernel void scale(__global const T* x, ulong x_offset, __global T* y, ulong y_offset, float factor, int
            count) {
                x += x_offset;
                y += y_offset;
                int i = get_global_id(0);
                if (i < count)
                    store_T(y, i, factor * load_T(x, i));
            }''', types={"T": "x"}, values={"count": lambda a: a.x.numel()},
            backward=lambda a, dy: {"x": scale(dy, a.factor)}, vmap="elementwise")
        y = scale(x, 2.5)

    name: "namespace::name" of the operator. source, options: as torch.ocl.compile_kernel takes them. kernel: the
        kernel's name (default: the operator's).
    The operator's arguments are the kernel's, in its order and by its names: `__global const` pointers are tensors,
        numbers are numbers. Pointers without const are the operator's results, or tensors that it changes, which
        `mutates` names. Tensors reach the kernel contiguous, whatever strides they have.
    types: names of types in the source and the tensor whose dtype each stands for. Of T come T_value, the type to
        compute in (float for float16 and bfloat16), load_T(pointer, index) and store_T(pointer, index, value).
    values: arguments of the kernel that are not the operator's (sizes, elements of __local memory): numbers, or
    functions. outputs: functions that make the results by name, by torch.empty and the like alone: they are called
    without
        data as well (default: contiguous tensors of the first tensor's shape, and its dtype where the pointer takes
        it).
    global_size, local_size: numbers, tuples or functions (default: an element of the first result for each work-item).
    backward: a function of the arguments and the results' gradients that gives gradients of tensors by name, made
        of differentiable operators for gradients of gradients. Without one, backward raises.
    vmap: "each" runs the kernel for every element of the mapped dimension (the default), "elementwise" once for
        all, for kernels that compute each element of their results from those at its place alone; or a rule as
        torch.library.register_vmap takes it.
    Functions get an object with the arguments and results as attributes (`a.x`, `a.factor`), before: a.needed, the
        names of tensors whose gradients backward is asked for.

    Arguments that do not fit, and errors of the compiler, which name lines of the source, are raised when the operator
    is defined or, where they depend on dtypes, called.
    """
    return KernelOperator(name, _Plan(name, source, kernel, options, dict(types or {}), dict(values or {}),
                                      dict(outputs or {}), mutates, global_size, local_size), backward, vmap)


def _names(text) -> list[str]:
    return [text] if isinstance(text, str) else list(text)


class _Plan:
    """What becomes of the kernel's arguments, and how it is launched."""

    def __init__(self, name, source, kernel, options, types, values, outputs, mutates, global_size, local_size):
        if name.count("::") != 1:
            raise ValueError(f"kernel_op: the operator's name is `namespace::name`, got {name!r}")
        self.name, self.options, self.types = name, options, types
        self.kernel_name = kernel or name.split("::")[1]
        self.source, self.prologue = source, '#include "core/dtype.cl"\n' if types else ""
        self.values, self.makers = values, outputs
        self.global_size, self.local_size = global_size, local_size
        self.mutates = _names(mutates)
        self.compiled: dict[tuple, object] = {}
        self.parameters = [p for p in self.read(torch.float32) if p[0] != "errors"]
        self.sort()

    def read(self, dtype) -> list[tuple]:
        return signature(self.source, self.kernel_name, self.options + self.type_options([dtype] * len(self.types)))

    def sort(self) -> None:
        """The kernel's parameters as arguments and results of the operator."""
        by_name = {p[1]: p for p in self.parameters}
        tensors = [p[1] for p in self.parameters if p[0] == "tensor"]
        written = [p[1] for p in self.parameters if p[0] == "tensor" and p[3]]
        self.results = [n for n in written if n not in self.mutates]
        for what, given, known in (("mutates", self.mutates, written), ("outputs", self.makers, self.results),
                                   ("values", self.values, [n for n in by_name if n not in tensors]),
                                   ("types", self.types.values(), [n for n in tensors if n not in self.results])):
            wrong = [n for n in given if n not in known]
            if wrong:
                raise ValueError(f"kernel_op {self.name}: {what}={wrong[0]!r}: expected one of "
                                 f"{', '.join(known) or 'none'}")
        self.arguments, declared = [], []
        for kind, name, *rest in self.parameters:
            if name in self.results or name in self.values:
                continue
            if kind in ("local", "bytes"):
                raise ValueError(f"kernel_op {self.name}: values= has to give {name}, "
                                 + ("a number of elements of local memory" if kind == "local" else "bytes"))
            self.arguments.append(name)
            kind = ("Tensor(a%d!)" % len(declared) if name in self.mutates else "Tensor") if kind == "tensor" else \
                "float" if rest[0].startswith("float") else "int"
            declared.append(f"{kind} {name}")
        self.tensors = [n for n in self.arguments if n in tensors]
        if not self.tensors:
            raise ValueError(f"kernel_op {self.name}: the kernel {self.kernel_name} has no tensor that the "
                             "operator is given")
        if self.mutates and self.results:
            raise ValueError(f"kernel_op {self.name}: an operator changes tensors or returns new ones; "
                             f"{self.results[0]} is written as well as {self.mutates[0]}")
        result = "()" if not self.results else "Tensor" if len(self.results) == 1 else \
            f"({', '.join(['Tensor'] * len(self.results))})"
        self.schema = f"({', '.join(declared)}) -> {result}"

    def type_options(self, dtypes) -> str:
        text = ""
        for name, dtype in zip(self.types, dtypes):
            if dtype not in C_TYPES:
                raise TypeError(f"kernel_op {self.name}: {name} stands for the dtype of {self.types[name]}; there is "
                                f"no type of OpenCL C for {dtype}")
            memory, compute = MEMORY_NAMES[dtype], C_TYPES[dtype].replace("bool", "uchar")
            stored = f"storage_{memory}" if dtype in (torch.float16, torch.bfloat16, torch.bool) else compute
            text += f" -D{name}={stored} -D{name}_value={compute}"
            text += f" -Dload_{name}=load_{memory} -Dstore_{name}=store_{memory}"
        return text

    def kernel(self, a):
        dtypes = tuple(getattr(a, tensor).dtype for tensor in self.types.values())
        known = self.compiled.get(dtypes)
        if known is None:
            known = self.compiled[dtypes] = build(self.source, self.kernel_name,
                                                  self.options + self.type_options(dtypes),
                                                  prologue=self.prologue)
        return known

    def bind(self, args) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(self.arguments, args)))

    def make_outputs(self, a) -> None:
        first = getattr(a, self.tensors[0])
        dtypes = {p[1]: p[2] for p in (self.parameters if not self.types else self.read_for(a)) if p[0] == "tensor"}
        for name in self.results:
            if name in self.makers:
                made = self.makers[name](a)
                if not isinstance(made, torch.Tensor):
                    raise TypeError(f"kernel_op {self.name}: outputs[{name!r}] has to make a tensor, got "
                                    f"{type(made).__name__}")
            else:
                accepted = dtypes[name]
                made = torch.empty(first.shape, dtype=first.dtype if first.dtype in accepted else accepted[0],
                                   device=first.device)
            setattr(a, name, made)

    def read_for(self, a) -> list[tuple]:
        dtypes = [getattr(a, tensor).dtype for tensor in self.types.values()]
        return signature(self.source, self.kernel_name, self.options + self.type_options(dtypes))

    def outputs_of(self, a):
        made = [getattr(a, name) for name in self.results]
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def fake(self, *args):
        a = self.bind(args)
        self.make_outputs(a)
        return self.outputs_of(a)

    def run(self, *args):
        a = self.bind(args)
        for name in self.tensors:
            if getattr(a, name).device.type != "ocl":
                raise RuntimeError(f"operator {self.name}, argument {name}: expected a tensor on an ocl device, got "
                                   f"one on {getattr(a, name).device}")
        self.make_outputs(a)
        first = getattr(a, (self.results or self.tensors)[0])
        size = first.numel() if self.global_size is None else self.found(self.global_size, a)
        local = self.found(self.local_size, a)
        dense = {name: getattr(a, name).contiguous() for name in self.tensors}
        given = [dense[n] if n in dense else self.found(self.values[n], a) if n in self.values else getattr(a, n)
                 for _, n, *_ in self.parameters]
        with torch.no_grad():
            self.kernel(a)(*given, global_size=size, local_size=local)
            for name in self.mutates:
                if dense[name] is not getattr(a, name):
                    getattr(a, name).copy_(dense[name])
        return self.outputs_of(a)

    @staticmethod
    def found(value, a):
        return value(a) if callable(value) else value


class KernelOperator:
    """What kernel_op makes: a function; `definition` is torch.library's, for implementations of other devices."""

    def __init__(self, name, plan: _Plan, backward, vmap):
        if isinstance(vmap, str) and vmap not in ("each", "elementwise"):
            raise ValueError(f'kernel_op {name}: vmap is "each", "elementwise" or a function, got {vmap!r}')
        if vmap == "elementwise" and plan.mutates:
            raise ValueError(f'kernel_op {name}: vmap="elementwise" is for operators that change no tensors')
        if backward is not None and plan.mutates:
            raise ValueError(f"kernel_op {name}: an operator that changes tensors has no backward")
        self.__name__, self._plan, self._backward = name, plan, backward
        if not plan.types and torch.ocl.is_available():
            plan.kernel(None)
        self.definition = torch.library.custom_op(name, plan.run, mutates_args=plan.mutates, schema=plan.schema)
        self.definition.register_fake(plan.fake)
        namespace, short = name.split("::")
        self._overload = getattr(getattr(torch.ops, namespace), short).default
        self._rule = vmap if callable(vmap) else self._elementwise if vmap == "elementwise" else self._each
        self.definition.register_vmap(self._rule)
        if backward is not None:
            self.definition.register_autograd(self._gradients, setup_context=self._save)
        self._transformed = _transformed(self) if backward is not None else None

    def __repr__(self) -> str:
        return f"<operator {self.__name__}{self._plan.schema}>"

    def __call__(self, *args, **kwargs):
        if self._transformed is not None and torch._C._are_functorch_transforms_active():
            return self._transformed.apply(*self._in_order(args, kwargs))
        return self._overload(*args, **kwargs)

    def _in_order(self, args, kwargs) -> list:
        names = self._plan.arguments[len(args):]
        if set(names) != set(kwargs) or len(args) > len(self._plan.arguments):
            raise TypeError(f"operator {self.__name__} takes {', '.join(self._plan.arguments)}")
        return [*args, *(kwargs[n] for n in names)]

    # Gradients.

    def _save(self, ctx, inputs, output) -> None:
        plan = self._plan
        results = list(output) if isinstance(output, (tuple, list)) else [output]
        a = dict(zip(plan.arguments, inputs))
        ctx.save_for_backward(*(a[n] for n in plan.tensors), *results)
        ctx.numbers = {n: value for n, value in a.items() if n not in plan.tensors}

    def _gradients(self, ctx, *gradients):
        plan = self._plan
        a = SimpleNamespace(**ctx.numbers, **dict(zip(plan.tensors + plan.results, ctx.saved_tensors)))
        needed = [n for n, is_needed in zip(plan.arguments, ctx.needs_input_grad) if is_needed]
        a.needed = needed
        found = self._backward(a, *gradients)
        if not isinstance(found, dict):
            raise TypeError(f"operator {self.__name__}: backward has to give gradients by name, as a dict, "
                            f"got {type(found).__name__}")
        wrong = [n for n in found if n not in plan.tensors]
        if wrong:
            raise ValueError(f"operator {self.__name__}: backward gives a gradient of {wrong[0]}; its tensors are "
                             f"{', '.join(plan.tensors)}")
        for n, gradient in found.items():
            if gradient is not None and gradient.shape != getattr(a, n).shape:
                raise ValueError(f"operator {self.__name__}: backward gives a gradient of {n} of shape "
                                 f"{tuple(gradient.shape)}, expected {tuple(getattr(a, n).shape)}")
        return tuple(found.get(n) for n in plan.arguments)

    # Rules for vmap.

    def _each(self, info, in_dims, *args):
        """The kernel for every element of the mapped dimension."""
        results = [self(*(arg if d is None else arg.select(d, k) for arg, d in zip(args, in_dims)))
                   for k in range(info.batch_size)]
        if not self._plan.results:
            return None, None
        if len(self._plan.results) == 1:
            return torch.stack(results), 0
        return tuple(torch.stack(parts) for parts in zip(*results)), (0,) * len(self._plan.results)

    def _elementwise(self, info, in_dims, *args):
        """The mapped dimension first, in all tensors."""
        moved = []
        for arg, d in zip(args, in_dims):
            if isinstance(arg, torch.Tensor):
                arg = arg.unsqueeze(0).expand(info.batch_size, *arg.shape) if d is None else arg.movedim(d, 0)
            moved.append(arg)
        result = self(*moved)
        return result, (0,) * len(result) if isinstance(result, tuple) else 0


def _transformed(operator: KernelOperator):
    """The operator under torch.func's transforms, which gradients of torch.library's operators do not work in."""

    class Transformed(torch.autograd.Function):
        @staticmethod
        def forward(*args):
            return operator._overload(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            operator._save(ctx, inputs, output)

        @staticmethod
        def backward(ctx, *gradients):
            return operator._gradients(ctx, *gradients)

        @staticmethod
        def vmap(info, in_dims, *args):
            return operator._rule(info, in_dims, *args)

    return Transformed
