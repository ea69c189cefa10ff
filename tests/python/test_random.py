"""Random numbers: reproducible, of the right distribution, and with PyTorch's errors."""
import math

import pytest
import torch

from comparison import FLOATS, INTEGERS, device


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device=device)


def kolmogorov(sample, distribution):
    """Largest distance between a sample's distribution function and the true one, times sqrt(n)."""
    x = sample.cpu().double().sort().values
    n = x.numel()
    f = distribution(x)
    k = torch.arange(n, dtype=torch.double)
    return max((f - k / n).abs().max(), ((k + 1) / n - f).abs().max()).item() * math.sqrt(n)


@pytest.mark.parametrize("draw, distribution", [
    (lambda t: t.uniform_(-2, 3), lambda x: (x + 2) / 5),
    (lambda t: t.normal_(1, 2), lambda x: 0.5 * (1 + torch.erf((x - 1) / (2 * math.sqrt(2))))),
    (lambda t: t.exponential_(1.5), lambda x: 1 - torch.exp(-1.5 * x)),
    (lambda t: t.cauchy_(1, 2), lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi),
    (lambda t: t.log_normal_(0.5, 0.75), lambda x: 0.5 * (1 + torch.erf((x.log() - 0.5) / (0.75 * math.sqrt(2))))),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distribution_function(draw, distribution, dtype):
    torch.manual_seed(5)
    assert kolmogorov(draw(empty(20001, dtype=dtype)), distribution) < 1.95   # exceeded once in a thousand seeds


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_stays_below_its_end(dtype):
    torch.manual_seed(0)
    x = torch.rand(100003, dtype=dtype, device=device).cpu()
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.double().mean() - 0.5) < 0.01
    x = empty(10001, dtype=dtype).uniform_(3, 4).cpu()
    assert x.min() >= 3 and x.max() < 4


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool])
def test_bernoulli(dtype):
    torch.manual_seed(1)
    x = empty(20000, dtype=dtype).bernoulli_(0.3).cpu().double()
    assert set(x.unique().tolist()) == {0.0, 1.0} and abs(x.mean() - 0.3) < 0.02
    p = torch.tensor([0.0, 0.25, 1.0], device=device)
    x = empty(20000, 3, dtype=dtype).bernoulli_(p).cpu().double().mean(0)
    assert x[0] == 0 and x[2] == 1 and abs(x[1] - 0.25) < 0.02


def test_bernoulli_of_probabilities():
    torch.manual_seed(1)
    p = torch.linspace(0, 1, 5, device=device).repeat(4000, 1)
    x = torch.bernoulli(p)
    assert x.dtype == p.dtype
    torch.testing.assert_close(x.cpu().mean(0), p[0].cpu(), atol=0.03, rtol=0)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_random_integers(dtype):
    torch.manual_seed(2)
    x = empty(20000, dtype=dtype).random_(3, 11).cpu()
    assert sorted(x.unique().tolist()) == list(range(3, 11))
    assert (torch.bincount(x.long())[3:] - 2500).abs().max() < 300
    x = empty(20000, dtype=dtype).random_().cpu()
    assert x.min() >= 0
    if dtype in INTEGERS:
        assert x.double().mean() == pytest.approx(torch.iinfo(dtype).max / 2, rel=0.02)


def test_random_over_all_values():
    torch.manual_seed(2)
    x = empty(10000, dtype=torch.int64).random_(-2**63, None).cpu()
    assert abs((x < 0).double().mean() - 0.5) < 0.03
    assert empty(1000, dtype=torch.bool).random_().cpu().unique().numel() == 2
    x = torch.randint(-5, 5, (1000,), device=device).cpu()
    assert x.min() == -5 and x.max() == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_open_intervals(dtype):
    for rate in (1, 1000):
        x = empty(1 << 18, dtype=dtype).exponential_(rate)
        assert x.cpu().min() > 0
    assert empty(9, dtype=dtype).exponential_(float("inf")).cpu().eq(0).all()
    alpha = torch.full((1 << 14, 2), 0.02, dtype=dtype, device=device)
    assert torch._standard_gamma(alpha).cpu().min() >= torch.finfo(dtype).tiny
    shares = torch._sample_dirichlet(alpha).cpu()
    assert shares.min() > 0 and shares.max() < 1
    assert empty(1 << 16, dtype=dtype).geometric_(0.9).cpu().min() >= 1


def test_geometric():
    torch.manual_seed(3)
    x = empty(20000).geometric_(0.25).cpu()
    assert x.min() == 1 and abs(x.mean() - 4) < 0.15


def test_normal_with_tensors_of_parameters():
    torch.manual_seed(4)
    mean = torch.tensor([-5.0, 0.0, 5.0], device=device).repeat(10000, 1)
    std = torch.tensor([0.1, 1.0, 3.0], device=device).repeat(10000, 1)
    for x, m, s in [(torch.normal(mean, std), mean, std), (torch.normal(mean, 2.0), mean, torch.full_like(std, 2)),
                    (torch.normal(1.0, std), torch.ones_like(mean), std)]:
        torch.testing.assert_close(x.mean(0).cpu(), m[0].cpu(), atol=0.15, rtol=0)
        torch.testing.assert_close(x.cpu().std(0), s[0].cpu(), atol=0.01, rtol=0.03)
    z = torch.randn(20000, dtype=torch.complex64, device=device).cpu()
    assert abs(z.abs().square().mean() - 1) < 0.05


def test_seed_and_state_reproduce():
    torch.manual_seed(7)
    a, b = torch.rand(1000, device=device), torch.randn(1000, device=device)
    torch.manual_seed(7)
    assert torch.equal(a.cpu(), torch.rand(1000, device=device).cpu())
    state = torch.ocl.get_rng_state()
    c = torch.randn(1000, device=device)
    assert torch.equal(b.cpu(), c.cpu()) and not torch.equal(a.cpu(), c.cpu())
    torch.ocl.set_rng_state(state)
    assert torch.equal(c.cpu(), torch.randn(1000, device=device).cpu())


def test_generator_of_its_own():
    generator = torch.Generator(device=device)
    draws = []
    for _ in range(2):
        generator.manual_seed(11)
        torch.rand(5, device=device)   # the default generator does not disturb it
        draws.append(torch.rand(100, device=device, generator=generator).cpu())
    assert torch.equal(*draws)


def test_views_get_the_numbers_of_their_own_order():
    torch.manual_seed(9)
    plain = torch.empty(6, 10, device=device).uniform_()
    torch.manual_seed(9)
    whole = torch.zeros(6, 20, device=device)
    whole[:, ::2].uniform_()
    assert torch.equal(whole[:, ::2].cpu(), plain.cpu()) and whole[:, 1::2].abs().sum() == 0


def test_empty_tensors():
    for t in (empty(0), empty(3, 0)):
        t.uniform_(), t.normal_(), t.bernoulli_(0.5), t.exponential_(), t.random_(5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_dropout(dtype, format):
    torch.manual_seed(6)
    x = torch.ones(8, 16, 10, 10, dtype=dtype).to(device, memory_format=format).requires_grad_()
    y = torch.nn.functional.dropout(x, 0.25)
    kept = y != 0
    assert y.is_contiguous(memory_format=format)
    assert abs(kept.cpu().double().mean() - 0.75) < 0.02
    torch.testing.assert_close(y.cpu(), kept.cpu().to(dtype) * (1 / 0.75))
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False).cpu(), x.cpu())
    assert torch.nn.functional.dropout(x, 1.0).abs().sum() == 0


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000, 2000, 16385, 70001, 1100000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.float32, torch.float64, torch.float16])
def test_randperm(n, dtype):
    if n > {torch.int16: 2 ** 15, torch.float16: 2 ** 11, torch.float32: 2 ** 24}.get(dtype, n):
        with pytest.raises(RuntimeError, match="n cannot be greater than|without overflow"):
            torch.randperm(n, device=device, dtype=dtype)
        return
    torch.manual_seed(8)
    p = torch.randperm(n, device=device, dtype=dtype).cpu()
    assert torch.equal(p.sort().values, torch.arange(n, dtype=dtype))
    if n > 5:
        assert not torch.equal(p, torch.arange(n, dtype=dtype))


def test_randperm_is_uniform():
    """Every order of four as often as the others, every place of a longer row as often by each element."""
    torch.manual_seed(9)
    orders = torch.stack([torch.randperm(4, device=device) for _ in range(4800)]).cpu()
    counts = torch.unique(orders, dim=0, return_counts=True)[1]
    assert len(counts) == 24 and ((counts - 200.0) ** 2 / 200).sum() < 23 + 5 * math.sqrt(46)
    n, times = 40, 2000
    places = torch.stack([torch.randperm(n, device=device) for _ in range(times)]).cpu()
    counts = torch.stack([torch.bincount(column, minlength=n) for column in places.T]).double()
    expected = times / n
    assert ((counts - expected) ** 2 / expected).sum() < (n - 1) ** 2 + 5 * math.sqrt(2) * (n - 1)
    out = torch.zeros(2 * n, dtype=torch.int64, device=device)[::2]
    torch.randperm(n, out=out)
    assert torch.equal(out.cpu().sort().values, torch.arange(n))
    long = torch.randperm(100000, device=device).cpu().double()
    shifts = (long - torch.arange(100000)).abs().mean() / 100000
    assert abs(shifts - 1 / 3) < 0.005


def test_multinomial():
    torch.manual_seed(10)
    weights = torch.tensor([[0.0, 1.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    x = torch.multinomial(weights.to(device), 20000, replacement=True).cpu()
    for row, w in zip(x, weights):
        torch.testing.assert_close(torch.bincount(row, minlength=4) / 20000, w / w.sum(), atol=0.02, rtol=0)
    x = torch.multinomial(weights.to(device)[1], 4).cpu()
    assert torch.equal(x.sort().values, torch.arange(4))
    assert torch.multinomial(torch.tensor([0.0, 0.0, 2.0], device=device), 1).item() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_variates(dtype):
    torch.manual_seed(12)
    n = 30000
    for rate in (0.0, 0.3, 7.0, 40.0, 1e4):
        x = torch.poisson(torch.full((n,), rate, dtype=dtype, device=device)).cpu().double()
        assert x.mean().item() == pytest.approx(rate, abs=5 * math.sqrt(rate / n) + 1e-12)
        assert x.var().item() == pytest.approx(rate, rel=0.06) and torch.equal(x, x.round())
    for shape in (0.2, 1.0, 3.5, 200.0):
        x = torch._standard_gamma(torch.full((n,), shape, dtype=dtype, device=device)).cpu().double()
        assert x.min() > 0 and x.mean().item() == pytest.approx(shape, abs=5 * math.sqrt(shape / n))
        assert x.var().item() == pytest.approx(shape, rel=0.15 if shape < 1 else 0.06)
    for trials, p in ((7.0, 0.3), (100.0, 0.02), (1000.0, 0.4), (1000.0, 0.9)):
        x = torch.binomial(torch.full((n,), trials, dtype=dtype, device=device),
                           torch.full((n,), p, dtype=dtype, device=device)).cpu().double()
        assert x.mean().item() == pytest.approx(trials * p, abs=5 * math.sqrt(trials * p * (1 - p) / n))
        assert x.var().item() == pytest.approx(trials * p * (1 - p), rel=0.06) and x.max() <= trials
    x = torch.distributions.Dirichlet(torch.tensor([1.0, 2.0, 5.0], dtype=dtype, device=device)).sample((n,)).cpu()
    torch.testing.assert_close(x.sum(-1), torch.ones(n, dtype=dtype))
    torch.testing.assert_close(x.mean(0), torch.tensor([1, 2, 5], dtype=dtype) / 8, atol=0.01, rtol=0)


def test_rrelu():
    torch.manual_seed(13)
    x = torch.randn(4000).to(device).requires_grad_()
    y = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    slope = (y / x).detach().cpu()[x.detach().cpu() < 0]
    assert slope.min() >= 0.0999 and slope.max() <= 0.3001 and abs(slope.mean() - 0.2) < 0.01
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), (y / x).detach().cpu())
    z = torch.nn.functional.rrelu(x, 0.1, 0.3)
    torch.testing.assert_close(z.detach().cpu(), torch.nn.functional.leaky_relu(x.detach().cpu(), 0.2))


def test_errors():
    t = empty(3)
    with pytest.raises(RuntimeError, match="bernoulli_ expects p to be in"):
        t.bernoulli_(1.5)
    with pytest.raises(RuntimeError, match="uniform_ expects to return"):
        t.uniform_(2, 1)
    with pytest.raises(RuntimeError, match="normal expects std >= 0.0"):
        t.normal_(0, -1)
    with pytest.raises(RuntimeError, match="random_ expects 'from' to be less than 'to'"):
        t.random_(5, 5)
    with pytest.raises(RuntimeError, match="exponential_ expects lambda > 0.0"):
        t.exponential_(0)
    with pytest.raises(RuntimeError, match="generator"):
        t.uniform_(generator=torch.Generator())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_derivatives_of_variates(dtype, device):
    """Every branch of the expansions: variates below, at and above the mean, for small and large parameters."""
    alpha = torch.tensor([0.01, 0.3, 1, 2.5, 7.9, 8.5, 20, 300, 5000], dtype=dtype).unsqueeze(-1)
    for relative in (0.02, 0.3, 0.85, 0.95, 1.0, 1.05, 1.15, 2, 4):
        x = alpha * relative
        torch.testing.assert_close(torch._standard_gamma_grad(alpha.to(device), x.to(device)).cpu(),
                                   torch._standard_gamma_grad(alpha, x), rtol=2e-4 if dtype == torch.float32 else 1e-7,
                                   atol=1e-6)
    beta = alpha.mT.contiguous()
    total = alpha + beta
    for x in (1e-4, 0.01, 0.2, 0.5, 0.7, 0.99, 0.9999):
        x = torch.full_like(total, x)
        expected = torch._dirichlet_grad(x.double(), alpha.double().expand_as(total).contiguous(), total.double())
        ours = torch._dirichlet_grad(x.to(device), alpha.expand_as(total).contiguous().to(device),
                                     total.to(device)).cpu()
        usable = (expected.abs() < 1e30) & (expected.abs() > 1e-30)
        # In float32 the rational approximation loses digits where it vanishes, the CPU's own as well.
        lost = (torch._dirichlet_grad(x, alpha.expand_as(total).contiguous(), total) - expected).abs()
        allowed = 1e-5 + (1e-3 if dtype == torch.float32 else 1e-7) * expected.abs() + 3 * lost
        assert ((ours - expected).abs() <= allowed)[usable].all()


def test_reparameterised_gradients(device):
    for distribution in (torch.distributions.Gamma, torch.distributions.Beta):
        a = torch.full((200,), 2.5, device=device, requires_grad=True)
        b = torch.full((200,), 1.5, device=device, requires_grad=True)
        distribution(a, b).rsample().sum().backward()
        assert a.grad.isfinite().all() and a.grad.abs().min() > 0 and b.grad.isfinite().all()
    c = torch.rand(20, 4, device=device).add_(0.5).requires_grad_()
    torch.distributions.Dirichlet(c).rsample().square().sum().backward()
    assert c.grad.isfinite().all()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_dropout_keeps_the_order_of_dimensions(memory_format):
    x = torch.ones(2, 3, 3, 6).contiguous(memory_format=memory_format)[..., ::2]
    expected = torch.nn.functional.dropout(x, 1e-10)
    strided = torch.ones(2, 3, 3, 6, device="ocl").contiguous(memory_format=memory_format)[..., ::2]
    actual = torch.nn.functional.dropout(strided, 1e-10)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected)


def test_parameters_whose_axes_of_one_element_have_any_stride():
    """Views keep strides that say nothing: of a row out of a matrix, of a window."""
    share = torch.tensor([[0.0, 1, 1, 0], [1, 0, 0, 1]], device=device)
    for view in (share.unfold(0, 1, 1), share[:, None, :].transpose(0, 1), share.as_strided((2, 1, 4), (4, 3, 1)),
                 share.as_strided((1, 2, 4, 1), (77, 4, 1, 5)), share[:1], share[:, :1], share[:1, :1]):
        for drawn in (torch.bernoulli(view), torch.empty_like(view).bernoulli_(view),
                      torch.bernoulli(view, out=torch.empty_strided(view.shape, view.stride(), device=device)),
                      torch.poisson(view * 0) + view, torch.binomial(torch.ones_like(view), view),
                      torch.nn.functional.dropout(view, 0.0), torch.native_dropout(view, 0.0, True)[0]):
            assert torch.equal(drawn, view)
        x = view.clone(memory_format=torch.preserve_format).requires_grad_()
        torch.nn.functional.dropout(x, 0.5)[..., :1].backward(torch.ones_like(view[..., :1]))
        assert set(x.grad.flatten().tolist()) <= {0, 2}
