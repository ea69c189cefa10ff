"""What operators with an index tensor refuse, as PyTorch's CPU does: indices out of range, overlapping memory."""
import warnings

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
N, WIDTH = 5, 4          # rows of the indexed tensor, which lies between canaries
BEFORE, AFTER = 40, 30


def wide(index):
    return index.view(-1, 1).repeat(1, WIDTH)   # expanded int32 makes PyTorch's CPU read the wrong rows


def ones(index, *shape, dtype=torch.float32):
    return torch.ones(shape, device=index.device, dtype=dtype)


def offsets(index):
    return torch.tensor([0, 2], device=index.device)


# name: f(x, i) with i = [0, index, 2] that reaches into the rows of x [N, WIDTH].
OPERATORS = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select, wide rows": lambda x, i: x.t().index_select(1, i),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding, matrix": lambda x, i: F.embedding(i.view(1, 3), x),
    "embedding, padding": lambda x, i: F.embedding(i, x, padding_idx=-1),
    "embedding_bag, sum": lambda x, i: F.embedding_bag(i, x, offsets(i).to(i.dtype), mode="sum"),
    "embedding_bag, mean": lambda x, i: F.embedding_bag(i, x, offsets(i).to(i.dtype), mode="mean"),
    "embedding_bag, max": lambda x, i: F.embedding_bag(i, x, offsets(i).to(i.dtype), mode="max"),
    "embedding_bag, weights": lambda x, i: F.embedding_bag(i, x, offsets(i).to(i.dtype), mode="sum",
                                                           per_sample_weights=ones(i, 3)),
    "gather": lambda x, i: x.gather(0, wide(i)),
    "gather, columns": lambda x, i: x.t().gather(1, wide(i).t()),
    "take_along_dim": lambda x, i: x.take_along_dim(wide(i), 0),
    "scatter": lambda x, i: x.scatter(0, wide(i), ones(i, 3, WIDTH)),
    "scatter_, value": lambda x, i: x.scatter_(0, wide(i), 7.0),
    "scatter_, add": lambda x, i: x.scatter_(0, wide(i), ones(i, 3, WIDTH), reduce="add"),
    "scatter_, multiply value": lambda x, i: x.scatter_(0, wide(i), 2.0, reduce="multiply"),
    "scatter_add": lambda x, i: x.scatter_add(0, wide(i), ones(i, 3, WIDTH)),
    "scatter_add_, lines": lambda x, i: x[:, 0].scatter_add_(0, i, ones(i, 3)),
    "scatter_add_, half": lambda x, i: x.half().scatter_add_(0, wide(i), ones(i, 3, WIDTH, dtype=torch.half)),
    "scatter_reduce, sum": lambda x, i: x.scatter_reduce(0, wide(i), ones(i, 3, WIDTH), "sum"),
    "scatter_reduce_, amax": lambda x, i: x.scatter_reduce_(0, wide(i), ones(i, 3, WIDTH), "amax"),
    "scatter_reduce, mean": lambda x, i: x.scatter_reduce(0, wide(i), ones(i, 3, WIDTH), "mean", include_self=False),
    "index_add": lambda x, i: x.index_add(0, i, ones(i, 3, WIDTH), alpha=2),
    "index_add_, columns": lambda x, i: x.t().index_add_(1, i, ones(i, WIDTH, 3)),
    "index_copy": lambda x, i: x.index_copy(0, i, ones(i, 3, WIDTH)),
    "index_copy_": lambda x, i: x.index_copy_(0, i, ones(i, 3, WIDTH)),
    "index_reduce_, prod": lambda x, i: x.index_reduce_(0, i, ones(i, 3, WIDTH), "prod"),
    "index_reduce, mean": lambda x, i: x.index_reduce(0, i, ones(i, 3, WIDTH), "mean", include_self=False),
    "index_fill": lambda x, i: x.index_fill(0, i, 3.0),
    "index_fill_, tensor": lambda x, i: x.index_fill_(0, i, ones(i)),
    "index": lambda x, i: x[i],
    "index, columns": lambda x, i: x.t()[:, i],
    "index, two": lambda x, i: x[i, torch.zeros_like(i)],
    "index_put": lambda x, i: x.index_put((i,), ones(i, 3, WIDTH)),
    "index_put_, two": lambda x, i: x.index_put_((i, torch.zeros_like(i)), ones(i, 3)),
    "index_put_, accumulate": lambda x, i: x.index_put_((i,), ones(i, 3, WIDTH), accumulate=True),
    "take": lambda x, i: x[:, 0].take(i),
    "put_": lambda x, i: x[:, 0].put_(i, ones(i, 3)),
    "put_, accumulate": lambda x, i: x[:, 0].put_(i, ones(i, 3), accumulate=True),
    "one_hot": lambda x, i: F.one_hot(i, N),
    "nll_loss": lambda x, i: F.nll_loss(x.t()[:3], i),
    "nll_loss, none": lambda x, i: F.nll_loss(x.t()[:3], i, reduction="none"),
    "nll_loss2d": lambda x, i: F.nll_loss(x.t()[:1].reshape(1, N, 1, 1).expand(1, N, 1, 3), i.view(1, 1, 3)),
    "cross_entropy": lambda x, i: F.cross_entropy(x.t()[:3], i, label_smoothing=0.1),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x.t()[:3], i),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(
        x.t()[:1], torch.cat([i, i.new_full((2,), -1)]).view(1, N)),
    "max_unpool2d": lambda x, i: aten.max_unpool2d(x[:3, 0].view(1, 1, 1, 3), i.view(1, 1, 1, 3), [1, N]),
    "max_unpool3d": lambda x, i: aten.max_unpool3d(x[:3, 0].view(1, 1, 1, 1, 3), i.view(1, 1, 1, 1, 3), [1, 1, N],
                                                   [1, 1, 1], [0, 0, 0]),
    "index_select_backward": lambda x, i: aten.index_select_backward(ones(i, 3, WIDTH), [N, WIDTH], 0, i),
    "gather_backward": lambda x, i: aten.gather_backward(ones(i, 3, WIDTH), x, 0, wide(i), False),
    "searchsorted, sorter": lambda x, i: torch.searchsorted(x[:3, 0], x[:3, 0], sorter=torch.where(i == 2, 1, i)),
}

# PyTorch's CPU does not look, or wraps in one of its loops, where the device refuses.
UNCHECKED_ON_THE_CPU = {
    "embedding_renorm_": lambda x, i: torch.embedding_renorm_(x, i, 0.5, 2.0),
    "embedding, max_norm": lambda x, i: F.embedding(i, x, max_norm=0.5),
    "embedding_dense_backward": lambda x, i: aten.embedding_dense_backward(ones(i, 3, WIDTH), i, N, -100, False),
    "embedding_dense_backward, by frequency": lambda x, i: aten.embedding_dense_backward(ones(i, 3, WIDTH), i, N, -100,
                                                                                        True),
    "_embedding_bag_dense_backward": lambda x, i: aten._embedding_bag_dense_backward(
        ones(i, 1, WIDTH), i, torch.zeros_like(i), torch.tensor([3], device=i.device),
        torch.zeros(0, dtype=torch.long, device=i.device), N, False, 0, None, -1),
    "_embedding_bag_per_sample_weights_backward": lambda x, i: aten._embedding_bag_per_sample_weights_backward(
        ones(i, 1, WIDTH), x, i, torch.tensor([0], device=i.device), torch.zeros_like(i), 0, -1),
    "ctc_loss": lambda x, i: F.ctc_loss(x[:, :1, None].expand(N, 1, N).log_softmax(2), i.view(1, 3), (N,), (3,),
                                        blank=3),
}


def between_canaries(place):
    base = torch.arange(float(BEFORE + N * WIDTH + AFTER), device=place)
    return base, base[BEFORE:BEFORE + N * WIDTH].view(N, WIDTH)


def run(function, place, index, dtype):
    """The result, or the error; and whether memory around the indexed tensor is as it was."""
    base, x = between_canaries(place)
    kept = base.cpu()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(x, torch.tensor([0, index, 2], dtype=dtype, device=place))
        if torch.device(place).type == "ocl":
            torch.ocl.synchronize()
        result = result.cpu()
    except (IndexError, RuntimeError) as error:
        result = error
    now = base.cpu()
    assert torch.equal(now[:BEFORE], kept[:BEFORE]) and torch.equal(now[-AFTER:], kept[-AFTER:])
    return result


@pytest.mark.parametrize("deterministic", [False, True], ids=["", "deterministic"])
@pytest.mark.parametrize("name", [*OPERATORS, *UNCHECKED_ON_THE_CPU])
def test_indices_out_of_range(name, deterministic, device):
    function = OPERATORS.get(name) or UNCHECKED_ON_THE_CPU[name]
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    try:
        for dtype in (torch.int64, torch.int32):
            if isinstance(run(function, "cpu", 1, dtype), Exception) and dtype == torch.int32:
                continue   # not a dtype of this operator's indices; the device may take it
            for index in (1, -1, -N, -N - 1, N, N + 5):
                actual = run(function, device, index, dtype)
                expected = run(function, "cpu", index, dtype) if name in OPERATORS or index == 1 else IndexError()
                assert isinstance(actual, Exception) == isinstance(expected, Exception), (index, actual, expected)
                if not isinstance(actual, Exception):
                    torch.testing.assert_close(actual, expected, equal_nan=True)
                torch.ocl.synchronize()   # reported once, and the device goes on
                assert torch.ones(3, device=device).sum().item() == 3
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("padding", [-1, -100, 255])
def test_a_padding_id_is_no_class(padding, device):
    ids = torch.tensor([0, 3, padding], device=device)
    with pytest.raises(RuntimeError, match="index .* is out of bounds"):
        F.one_hot(ids, 5)
        torch.ocl.synchronize()
    with pytest.raises(IndexError, match="embedding: index .* is out of bounds for dimension with size 5"):
        F.embedding(ids, torch.ones(5, 2, device=device))
        torch.ocl.synchronize()


def test_bags_that_begin_or_end_elsewhere(device):
    weight, index = torch.ones(5, 2, device=device), torch.tensor([0, 1, 2, 3], device=device)
    for offsets, message in (([1, 2], r"offsets\[0\] has to be 0"), ([0, 5], "out of bounds"),
                             ([0, 2, 5], "out of bounds")):
        with pytest.raises((IndexError, RuntimeError)):
            F.embedding_bag(index.cpu(), weight.cpu(), torch.tensor(offsets), include_last_offset=len(offsets) == 3)
        with pytest.raises((IndexError, RuntimeError), match=message):
            F.embedding_bag(index, weight, torch.tensor(offsets, device=device), include_last_offset=len(offsets) == 3)
            torch.ocl.synchronize()
        torch.ocl.synchronize()


def test_a_source_with_too_few_elements(device):
    x, mask = torch.zeros(4, device=device), torch.ones(4, dtype=torch.bool, device=device)
    with pytest.raises(RuntimeError, match="masked_scatter_"):
        x.masked_scatter_(mask, torch.ones(3, device=device))
        torch.ocl.synchronize()


def kind_of_error(call, place):
    try:
        call(place)
        torch.ocl.synchronize()
    except Exception as error:
        return type(error)
    return None


# index_select and index_add are not among them: by sizes and strides, the CPU raises one type or the other.
RAISED = {
    "gather": lambda x, i: x.gather(0, i.expand(1, 5)),
    "scatter": lambda x, i: x.scatter(0, i.expand(1, 5), x),
    "scatter_add": lambda x, i: x.scatter_add(1, i.expand(4, 1), x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i.expand(1, 5), x, "amax"),
    "take": lambda x, i: x.take(10 * i),
    "index": lambda x, i: x[i],
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:1], "prod"),
    "one_hot": lambda x, i: F.one_hot(i, 3),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, torch.zeros_like(i)),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:1], i),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(x[:1], i.expand(1, 5)),
    "nll_loss": lambda x, i: F.nll_loss(x[:1], i),
    "max_unpool": lambda x, i: F.max_unpool1d(x[:1], 10 * i.expand(1, 5), 2),
}


@pytest.mark.parametrize("name", RAISED)
def test_a_bad_index_is_the_error_that_the_cpu_raises(name, device):
    def call(place):
        return RAISED[name](torch.ones(4, 5, device=place), torch.tensor([9], device=place))
    assert kind_of_error(call, device) is kind_of_error(call, "cpu") is not None


ROWS = {
    "index_select": lambda x, dim, i, rows: x.index_select(dim, i),
    "index_copy": lambda x, dim, i, rows: x.index_copy(dim, i, rows),
    "index_fill": lambda x, dim, i, rows: x.index_fill(dim, i, 1),
    "index_add": lambda x, dim, i, rows: x.index_add(dim, i, rows),
    "index_reduce": lambda x, dim, i, rows: x.index_reduce(dim, i, rows, "prod"),
    "embedding": lambda x, dim, i, rows: F.embedding(i, x),
    "index": lambda x, dim, i, rows: x[(slice(None),) * dim + (i,)],
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("name", ROWS)
def test_an_index_into_nothing_is_the_error_that_the_cpu_raises(name, shape, device):
    for dim in range(len(shape)):
        for index in ([], [0], [2], [9]):
            def call(place, dim=dim, index=index):
                x = torch.ones(shape, device=place)
                rows = torch.ones([len(index) if d == dim else n for d, n in enumerate(shape)], device=place)
                return ROWS[name](x, dim, torch.tensor(index, dtype=torch.int64, device=place), rows)
            assert kind_of_error(call, device) is kind_of_error(call, "cpu"), (dim, index)


# ---- overlapping memory ----

# name: f(self, index, source); self is written to.
WRITES = {
    "scatter_": lambda x, i, s: x.scatter_(0, i, s),
    "scatter_, value": lambda x, i, s: x.scatter_(0, i, 1),
    "scatter_, add": lambda x, i, s: x.scatter_(0, i, s, reduce="add"),
    "scatter_, multiply value": lambda x, i, s: x.scatter_(0, i, 2, reduce="multiply"),
    "scatter_add_": lambda x, i, s: x.scatter_add_(0, i, s),
    "scatter_reduce_": lambda x, i, s: x.scatter_reduce_(0, i, s, "amax"),
    "index_add_": lambda x, i, s: x.index_add_(0, i, s),
    "index_copy_": lambda x, i, s: x.index_copy_(0, i, s),
    "index_reduce_": lambda x, i, s: x.index_reduce_(0, i, s, "amax"),
    "index_fill_": lambda x, i, s: x.index_fill_(0, i, 1),
    "index_fill_, tensor": lambda x, i, s: x.index_fill_(0, i, torch.ones((), dtype=x.dtype, device=x.device)),
    "put_": lambda x, i, s: x.put_(i, s),
    "put_, accumulate": lambda x, i, s: x.put_(i, s, accumulate=True),
    "index_put_": lambda x, i, s: x.index_put_((i,), s),
    "index_put_, accumulate": lambda x, i, s: x.index_put_((i,), s, accumulate=True),
    "x[i] = s": lambda x, i, s: x.__setitem__(i, s),
    "masked_fill_": lambda x, i, s: x.masked_fill_(x.eq(1), 1),
    "masked_scatter_": lambda x, i, s: x.masked_scatter_(x.eq(1), s),
    "gather": lambda x, i, s: torch.gather(s, 0, i, out=x),
    "index_select": lambda x, i, s: torch.index_select(s, 0, i, out=x),
    "take": lambda x, i, s: torch.take(s, i, out=x),
    "index": lambda x, i, s: aten.index.Tensor_out(s, [i], out=x),
    "masked_select": lambda x, i, s: torch.masked_select(s, s.eq(s), out=x),
    "arange": lambda x, i, s: torch.arange(x.numel(), out=x),
    "linspace": lambda x, i, s: torch.linspace(0, 1, x.numel(), out=x),
}


def overlaps(place):
    index, source = torch.tensor([0, 1, 2], device=place), torch.ones(3, device=place)
    x = torch.arange(12.0, device=place)
    yield "expanded", torch.zeros(1, device=place).expand(3), index, source
    yield "part of the source", x[0:3], index, x[2:5]
    yield "all of the source", x[0:3], index, x[0:3]
    x = torch.arange(12, device=place) % 3
    yield "part of the index", x[0:3], x[2:5], x[6:9]
    yield "all of the index", x[0:3], x[0:3], x[6:9]


@pytest.mark.parametrize("name", WRITES)
def test_overlapping_memory(name, device):
    def outcome(place, arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                WRITES[name](*arguments)
            except (RuntimeError, IndexError) as error:
                return type(error), str(error).split("\n")[0]
            torch.ocl.synchronize()
        return [str(w.message).split(" (Trig")[0] for w in caught if "expanded tensors" in str(w.message)]

    for (case, *expected), (_, *actual) in zip(overlaps("cpu"), overlaps(device)):
        assert outcome(device, actual) == outcome("cpu", expected), case


# ---- deterministic mode ----

def test_new_memory_is_filled(device):
    torch.use_deterministic_algorithms(True)
    try:
        for make in (lambda: torch.empty(7, device=device), lambda: torch.empty_strided((3, 2), (1, 3), device=device),
                     lambda: torch.empty_like(torch.ones(5, device=device)),
                     lambda: torch.ones(2, device=device).new_empty(3),
                     lambda: torch.ones(2, device=device).resize_(9)[2:],
                     lambda: torch.ones(2, device=device).resize_as_(torch.ones(3, 3, device=device)).view(-1)[2:]):
            assert make().isnan().all()
        grown = torch.ones(2, dtype=torch.int16, device=device).resize_(5)
        assert grown.tolist() == [1, 1] + 3 * [torch.iinfo(torch.int16).max]
        torch.utils.deterministic.fill_uninitialized_memory = False
        launches = torch.ocl.kernel_launches()
        torch.empty(7, device=device).resize_(20)
        assert torch.ocl.kernel_launches() == launches
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def test_what_deterministic_mode_refuses(device):
    x, i = torch.ones(4, device=device), torch.tensor([0, 0], device=device)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
            x.put_(i, x[:2] + 1)
        x.put_(i, x[2:].clone(), accumulate=True)
        with pytest.raises(RuntimeError, match="max_unpooling2d_forward_out does not have a deterministic"):
            aten.max_unpool2d(x.view(1, 1, 2, 2), torch.arange(4, device=device).view(1, 1, 2, 2), [2, 2])
        for write in (lambda: x.scatter_(0, i, x[:2].clone()), lambda: x.index_copy_(0, i, x[:2].clone()),
                      lambda: x.index_put_((i,), x[:2].clone()), lambda: x.index_add_(0, i, x[:2].clone())):
            write()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x[0].isfinite()


def test_a_lazy_clone_is_a_copy_of_its_own(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    clone, transposed = torch._lazy_clone(x), torch._lazy_clone(x.t())
    x += 1
    clone[0] = 7
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]] and clone.tolist() == [[7, 7, 7], [3, 4, 5]]
    assert transposed.tolist() == [[0, 3], [1, 4], [2, 5]] and transposed.stride() == x.t().stride()


def test_masks_of_bytes_are_warned_of_once_each(device):
    x = torch.randn(5, 7, 3, device=device)
    rows, columns = torch.tensor([1, 0, 1, 1, 0], dtype=torch.uint8), torch.tensor([1, 1, 1], dtype=torch.uint8)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert x[rows.to(device), :, columns.to(device)].shape == (3, 7)
    assert len(said) == 2


@pytest.mark.parametrize("name", ("cummax", "cummin"))
@pytest.mark.parametrize("shift", (0, 1))
def test_places_written_over_the_input(name, shift, device):
    """Values and places go to two tensors, either of which may share the input's memory."""
    memory = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6], device=device)
    x, over = memory[:-1], memory[shift:][:7]
    operator = getattr(torch, name)
    values, places = operator(x.cpu(), 0)
    operator(x, 0, out=(torch.empty_like(x), over))
    assert torch.equal(over.cpu(), places)
    memory.copy_(torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]))
    operator(x, 0, out=(over, torch.empty_like(x)))
    assert torch.equal(over.cpu(), values)


def test_kthvalue_refuses_its_input_for_a_result(device):
    x = torch.arange(6.0, device=device)
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
        torch.kthvalue(x[:3].view(3, 1), 1, 1, out=(x[1:4], torch.empty(3, dtype=torch.long, device=device)))
