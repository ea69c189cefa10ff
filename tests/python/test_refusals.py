"""What the CPU refuses is refused: PyTorch's own wrong calls of operators and modules, and dtypes without a meaning."""
import contextlib
import warnings

import pytest
import torch
from comparison import device
from opinfo import move
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map



def raised(call):
    """The exception of a call, also one that the next synchronisation reports."""
    try:
        call()
        torch.ocl.synchronize()
    except Exception as error:
        with contextlib.suppress(Exception):
            torch.ocl.synchronize()
        return error
    return None


def use(op, arguments):
    first, rest, named = arguments
    result = op(first, *rest, **named)
    if result is NotImplemented:   # what Python's operators make a TypeError of
        raise TypeError
    return result


@pytest.mark.parametrize("part", range(4))
def test_wrong_calls_of_operators(part):
    accepted, calls = [], 0
    for op in [op for op in op_db if op.error_inputs_func is not None][part::4]:
        for case in op.error_inputs(device):
            sample = case.sample_input
            given = (sample.input, sample.args, sample.kwargs)
            if raised(lambda: use(op, move(given, "cpu"))) is None:   # a case of some overloads only
                continue
            error, calls = raised(lambda: use(op, given)), calls + 1
            if not isinstance(error, case.error_type):
                accepted.append((op.formatted_name, case.error_type, error))
    assert calls > 50 and not accepted, accepted


@pytest.mark.parametrize("training", [True, False])
def test_wrong_calls_of_modules(training):
    accepted, calls = [], 0
    for info in [info for info in module_db if info.module_error_inputs_func is not None]:
        for case in info.module_error_inputs_func(info, device=device, dtype=torch.float32, requires_grad=False,
                                                  training=training):
            built, given = case.module_error_input.constructor_input, case.module_error_input.forward_input

            def use(where):
                args, kwargs = move((built.args, built.kwargs), where)
                module = info.module_cls(*args, **kwargs).to(where).train(training)
                if given is not None:
                    args, kwargs = move((given.args, given.kwargs), where)
                    module(*args, **kwargs)
            if raised(lambda: use("cpu")) is None:
                continue
            error, calls = raised(lambda: use(device)), calls + 1
            if not isinstance(error, case.error_type):
                accepted.append((info.name, case.error_type, error))
    assert calls > 50 and not accepted, accepted


# Operators that take more than the CPU's kernels do, with a meaning.
WIDER = {
    "nn.functional.conv3d": "all integers, as the CPU in one and two dimensions",
    "nn.functional.conv_transpose1d": "all integers, as conv1d",
    "nn.functional.conv_transpose2d": "all integers, as conv2d",
    "nn.functional.conv_transpose3d": "all integers, as conv2d",
    "nn.functional.max_pool1d": "integers, as the CPU in two and three dimensions",
    "sparse.sampled_addmm": "integers, as products of dense matrices",
    "histc": "integers, as on CUDA",
    "unique": "an empty tensor has nothing to order",
    "unique_consecutive": "complex numbers are compared, not ordered",
    "index_reduce": "one kernel for all dtypes",
    "scatter_reduce": "one kernel for all dtypes",
}


@pytest.mark.parametrize("part, dtype", list(enumerate([torch.bool, torch.int32, torch.complex64])))
def test_dtypes(part, dtype):
    """The last sample of every third operator, in a dtype that it may not be made for."""
    accepted, refusals = [], 0
    for op in op_db[part::3]:
        if not op.supports_dtype(torch.float32, "cpu") or op.supports_dtype(dtype, "cpu") or op.name in WIDER:
            continue
        sample = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))[-1]
        arguments = tree_map(lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) and
                             leaf.dtype == torch.float32 else dtype if leaf is torch.float32 else leaf,
                             (sample.input, sample.args, sample.kwargs))

        def call(first, rest, named):
            return raised(lambda: op(first, *rest, **named))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if call(*arguments) is None:
                continue
            refusals += 1
            if call(*move(arguments, device)) is None:
                accepted.append((op.formatted_name, arguments))
    assert refusals > 50 and not accepted, [name for name, _ in accepted]


def test_results_are_not_given_to_tensors_elsewhere():
    """An `out` on the CPU is refused by operators that have one, whatever they compute with."""
    accepted = []
    for op in op_db[::2]:
        # Some have no tensor to compare with; mvlgamma copies on the CPU, too.
        if not op.supports_out or op.name in ("linspace", "logspace", "mvlgamma", "lu") or "empty" in op.name \
                or not op.supports_dtype(torch.float32, "cpu"):
            continue
        with contextlib.suppress(Exception):    # no sample, or none that the CPU computes
            sample = next(iter(op.sample_inputs("cpu", torch.float32)))
            values = op(sample.input, *sample.args, **sample.kwargs)
            values = values if isinstance(values, (tuple, list)) else (values,)
            arguments = move((sample.input, sample.args, sample.kwargs), device)
            if not isinstance(arguments[0], torch.Tensor) or not all(isinstance(v, torch.Tensor) for v in values):
                continue
            out = [torch.empty_like(v, device="cpu" if i == 0 else device) for i, v in enumerate(values)]
            first, rest, named = arguments
            error = raised(lambda: op(first, *rest, **named, out=out[0] if len(out) == 1 else tuple(out)))
            if error is None:
                accepted.append(op.formatted_name)
    assert not accepted


def test_dtypes_without_a_kernel_are_not_implemented():
    numbers, complexes = torch.ones(3, device=device), torch.ones(3, dtype=torch.complex64, device=device)
    for call in (lambda: numbers.bincount(), lambda: complexes.histc(4), lambda: complexes.cummax(0),
                 lambda: complexes.median(), lambda: complexes.mode(0), lambda: complexes.unique(),
                 lambda: numbers.int().logcumsumexp(0), lambda: torch.bucketize(complexes, numbers)):
        assert isinstance(raised(call), NotImplementedError)


def test_dtypes_without_a_kernel_are_refused_by_the_cpu_s_type():
    """By one check of each family of kernels, which knows nothing of PyTorch."""
    half, whole = torch.ones(3, 3, dtype=torch.float16), torch.ones(3, 3, dtype=torch.int64)
    calls = [lambda to, x=x, f=f: f(to(x)) for x in (half, whole) for f in (
        torch.linalg.lu_factor, torch.geqrf, torch.cholesky_inverse, torch.linalg.qr, torch.linalg.eigh,
        torch.linalg.eig, torch.linalg.svdvals, torch.linalg.cholesky, torch.linalg.inv, torch.linalg.ldl_factor)]
    calls += [lambda to, x=x, f=f: f(to(x), to(x)) for x in (half, whole) for f in (
        torch.linalg.solve, torch.cholesky_solve, lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        lambda a, b: torch.ormqr(a, a[0], b), lambda a, b: torch.linalg.householder_product(a, b[0]))]
    functional = torch.nn.functional
    calls += [lambda to: functional.relu(to(whole.bool())), lambda to: functional.relu6(to(whole.bool())),
              lambda to: functional.dropout(to(whole * 1j)), lambda to: functional.dropout(to(whole)),
              lambda to: torch.segment_reduce(to(whole[0]), "sum", lengths=to(torch.tensor([3]))),
              lambda to: torch.fft.fft(to(half)), lambda to: torch.fft.ihfft2(to(whole * 1j)),
              lambda to: torch.unique(to(whole * 1j), dim=0), lambda to: torch.softmax(to(whole), 0),
              lambda to: torch.index_reduce(to(whole[0].bool()), 0, to(torch.tensor([0])), to(whole[0, :1].bool()),
                                            "prod")]
    for number, call in enumerate(calls):
        errors = [type(raised(lambda: call(lambda x: x.to(where)))) for where in ("cpu", device)]
        assert errors[0] is errors[1] is not None, (number, errors)


def test_dtypes_without_a_kernel_give_nothing_of_nothing():
    for call in (lambda to: to(torch.ones(5, 0, dtype=torch.bool)).mm(to(torch.ones(0, 4, dtype=torch.bool))),
                 lambda to: to(torch.ones(3, 0, dtype=torch.int64)).softmax(0),
                 lambda to: torch.linalg.lu_factor(to(torch.ones(0, 3, 3, dtype=torch.float16)))[0],
                 lambda to: torch.linalg.eigvalsh(to(torch.ones(0, 0, dtype=torch.int64))),
                 lambda to: torch.searchsorted(to(torch.ones(0).bool()), to(torch.ones(0).bool())),
                 lambda to: torch.linalg.lu_solve(to(torch.ones(3, 3).half()), to(torch.tensor([1, 2, 3]).int()),
                                                  to(torch.ones(3, 0).half())),
                 lambda to: torch.nn.functional.adaptive_avg_pool2d(to(torch.ones(0, 2, 8, 8).long()), 5)):
        expected, actual = (call(lambda x: x.to(where)).cpu() for where in ("cpu", device))
        assert torch.equal(expected, actual) and expected.dtype == actual.dtype


def test_dtypes_without_a_kernel_are_refused_with_nothing_to_compute():
    newest = (torch.linalg.matrix_sqrth,) if hasattr(torch.linalg, "matrix_sqrth") else ()
    for call in (torch.cholesky_inverse, lambda x: torch.cholesky_solve(x, x), torch.linalg.qr, *newest):
        for dtype in (torch.float16, torch.int64):
            for shape in ((0, 0), (2, 0, 0), (3, 3)):
                errors = [type(raised(lambda: call(torch.ones(shape, dtype=dtype, device=where))))
                          for where in ("cpu", device)]
                assert errors[0] is errors[1] and issubclass(errors[0], RuntimeError), (dtype, shape, errors)


def test_reflectors_are_as_many_as_the_columns():
    """What ormqr of the CPU takes; counts are looked at before dtypes."""
    for left, other in ((True, (4, 5)), (False, (2, 4))):
        for count in range(1, 5):
            for columns, dtype in ((3, torch.float32), (5, torch.float32), (3, torch.int64)):
                errors = [type(raised(lambda: torch.ormqr(*(
                    torch.ones(shape, dtype=dtype, device=where) for shape in ((4, columns), (count,), other)), left)))
                    for where in ("cpu", device)]
                assert errors[0] is errors[1], (left, count, columns, dtype, errors)


def test_permutations_of_any_dtype():
    lu, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 10]]))
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        expected = torch.lu_unpack(lu.to(dtype), pivots)
        for a, b in zip(torch.lu_unpack(lu.to(dtype).to(device), pivots.to(device)), expected):
            torch.testing.assert_close(a.cpu(), b)


def test_numbers_that_do_not_fit_are_refused_without_elements_too():
    for dtype, number in ((torch.uint8, 300), (torch.float16, 70000), (torch.float32, 1j), (torch.int32, 2**40)):
        for shape in ((2,), (0,)):
            zeros = torch.zeros(shape, dtype=dtype, device=device)
            assert isinstance(raised(lambda: zeros.fill_(number)), RuntimeError)


def test_factors_that_the_result_cannot_hold():
    """Complex factors of real tensors, whose imaginary part would be lost, and booleans."""
    x, line, batch = (torch.ones(*shape, device=device) for shape in ((2, 2), (2,), (1, 2, 2)))
    accepted = []
    for name, call in {
            "addr": lambda f: torch.addr(x, line, line, alpha=f),
            "addr beta": lambda f: torch.addr(x, line, line, beta=f),
            "addmm": lambda f: torch.addmm(x, x, x, alpha=f), "addmm beta": lambda f: torch.addmm(x, x, x, beta=f),
            "addmm of int64": lambda f: torch.addmm(x.long(), x.long(), x.long(), alpha=f),
            "addmv": lambda f: torch.addmv(line, x, line, beta=f),
            "addbmm": lambda f: torch.addbmm(x, batch, batch, alpha=f),
            "baddbmm": lambda f: torch.baddbmm(batch, batch, batch, alpha=f), "add": lambda f: torch.add(x, x, alpha=f),
            "addcmul": lambda f: torch.addcmul(x, x, x, value=f), "addcdiv": lambda f: torch.addcdiv(x, x, x, value=f),
            "lerp": lambda f: torch.lerp(x, x, f)}.items():
        accepted += [name] * (not isinstance(raised(lambda: call(1 + 2j)), RuntimeError))
    for name, call in {
            "addr": lambda f: torch.addr(x, line, line, alpha=f),
            "addr beta": lambda f: torch.addr(x, line, line, beta=f),
            "foreach_add": lambda f: torch._foreach_add([x], [x], alpha=f)}.items():
        accepted += [f"{name} of a boolean"] * (not isinstance(raised(lambda: call(True)), RuntimeError))
    assert not accepted
    torch.testing.assert_close(torch.addmm(x, x, x, alpha=2 + 0j).cpu(), torch.full((2, 2), 5.0))


DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)
INTO = {    # `out` of any dtype; a second one holds positions
    "max": (lambda x, out: torch.max(x, out=out), 1), "min": (lambda x, out: torch.min(x, out=out), 1),
    "cumsum": (lambda x, out: torch.cumsum(x, 1, out=out), 1), "sum": (lambda x, out: torch.sum(x, 1, out=out), 1),
    "mean": (lambda x, out: torch.mean(x, 1, out=out), 1), "nansum": (lambda x, out: torch.nansum(x, 1, out=out), 1),
    "amax": (lambda x, out: torch.amax(x, 1, out=out), 1), "argmax": (lambda x, out: torch.argmax(x, 1, out=out), 1),
    "add": (lambda x, out: torch.add(x, x, out=out), 1), "histc": (lambda x, out: torch.histc(x, 4, out=out), 1),
    "max.dim": (lambda x, out: torch.max(x, 1, out=out), 2), "mode": (lambda x, out: torch.mode(x, 1, out=out), 2),
    "median": (lambda x, out: torch.median(x, 1, out=out), 2), "sort": (lambda x, out: torch.sort(x, out=out), 2),
    "nanmedian": (lambda x, out: torch.nanmedian(x, 1, out=out), 2),
    "topk": (lambda x, out: torch.topk(x, 2, out=out), 2), "cummax": (lambda x, out: torch.cummax(x, 1, out=out), 2),
    "kthvalue": (lambda x, out: torch.kthvalue(x, 2, out=out), 2),
    "index_reduce": (lambda x, out: torch.index_reduce(x, 0, x.real.new_zeros(3, dtype=torch.long), x, "amax", out=out),
                     1),
}


@pytest.mark.parametrize("name", INTO)
def test_outputs_of_other_dtypes_are_written_or_refused_as_on_the_cpu(name):
    use, outputs = INTO[name]
    differing = []
    for dtype in DTYPES:
        x = torch.tensor([[2, 1, 0, 3], [1, 0, 2, 3], [3, 2, 1, 0]]).to(dtype)
        for into, places in [(into, torch.int64) for into in DTYPES] + [(dtype, into) for into in DTYPES]:
            results = {}
            for where in ("cpu", device):
                out = [torch.zeros(0, dtype=into, device=where), torch.zeros(0, dtype=places, device=where)]
                error = raised(lambda: use(x.to(where), out[0] if outputs == 1 else tuple(out)))
                results[where] = out[0].cpu(), type(error)
            (expected, refused), (actual, error) = results["cpu"], results[device]
            if name == "histc" and refused is NotImplementedError:     # integers are counted on the device
                continue
            if refused is not error or (error is type(None) and not torch.equal(actual, expected)):
                differing.append((dtype, into, places, refused, error))
    assert not differing


def test_indices_and_counts_that_do_not_fit_are_refused_as_on_the_cpu():
    index, two = torch.tensor([0]), torch.tensor([0, 1])
    cases = {
        "index_select": lambda to, x: x.index_select(0, to(index)),
        "index_add": lambda to, x: x.index_add(0, to(index), x.new_ones((1, *x.shape[1:]))),
        "index_reduce": lambda to, x: x.index_reduce(0, to(index), x.new_ones((1, *x.shape[1:])), "amax"),
        "take": lambda to, x: x.take(to(index)), "put": lambda to, x: x.put(to(two), x.new_ones(1)),
        "index_fill": lambda to, x: x.index_fill(3, to(index)[None], 1),
        "index_put": lambda to, x: x.index_put((to(two),), x.new_ones(())),
        "kthvalue": lambda to, x: x.bool().kthvalue(1, 5), "logcumsumexp": lambda to, x: x.long().logcumsumexp(5),
        "bernoulli": lambda to, x: torch.bernoulli(x.long()),
        "masked_fill": lambda to, x: x.masked_fill(x == 0, to(torch.tensor(1 + 1j))),
    }
    for name, call in cases.items():
        for shape in ((0,), (0, 3), (3, 0), (1, 0)):
            errors = [type(raised(lambda: call(lambda tensor: tensor.to(where), torch.ones(shape, device=where))))
                      for where in ("cpu", device)]
            assert errors[0] is errors[1], (name, shape, errors)
    x = torch.zeros(3, device=device)
    assert x.masked_fill(x == 0, torch.tensor(2 + 0j, device=device)).tolist() == [2, 2, 2]
