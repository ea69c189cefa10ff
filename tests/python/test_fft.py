"""torch.fft, stft and istft against PyTorch's CPU."""
import pytest
import torch
import torch._refs.fft
from torch.testing import assert_close

from opinfo import case_id, cases, check, check_gradients

NAMES = {f"fft.{kind}{axes}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for axes in ("", "2", "n")}
NAMES |= {"stft", "istft"}
CASES = cases(NAMES)
TRANSFORMS = sorted({case[0].name: case[0] for case in CASES if case[0].name != "istft"}.items())


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("name, op", TRANSFORMS, ids=[name for name, _ in TRANSFORMS])
def test_gradients(name, op, device):
    check_gradients(op, device, torch.float64 if op.supports_dtype(torch.float64, "cpu") else torch.complex128)


# Lines of every small factor, of one vector or less, too long for fast memory, of small and of large primes.
@pytest.mark.parametrize("n", (1, 2, 7, 17, 32, 64, 97, 105, 169, 243, 360, 480, 1001, 1009, 1155, 4096, 5000,
                               5003, 65536))
@pytest.mark.parametrize("norm", ("forward", "backward", "ortho"))
def test_lengths_and_norms(n, norm, device):
    x = torch.randn(3, n, dtype=torch.complex128)
    spectrum = torch.fft.fft(x.to(device), norm=norm)
    assert_close(spectrum.cpu(), torch.fft.fft(x, norm=norm))
    assert_close(torch.fft.ifft(spectrum, norm=norm).cpu(), x)
    real = x.real.clone()
    half = torch.fft.rfft(real.to(device), norm=norm)
    assert_close(half.cpu(), torch.fft.rfft(real, norm=norm))
    assert_close(torch.fft.irfft(half, n, norm=norm).cpu(), real)


# Lines side by side: more than a vector of them, fewer, too long for fast memory, of primes that none of it takes.
@pytest.mark.parametrize("shape", ((2, 64, 33), (3, 30, 5), (1, 1155, 17), (2, 1500, 16), (2, 4096, 3), (1, 8192, 20),
                                   (2, 37, 40), (1, 1, 32), (40, 15), (100, 77), (33, 1500), (17, 40000), (16, 2)))
@pytest.mark.parametrize("dtype", (torch.complex64, torch.complex128))
def test_columns_and_many_rows(shape, dtype, device):
    def check_terms(got, expected):
        """Of float32 next to the largest term, as sums are in any order."""
        if dtype == torch.complex128:
            assert_close(got.cpu(), expected)
        else:
            assert (got.cpu() - expected).abs().max() <= 1e-6 * expected.abs().max()

    x = torch.randn(shape, dtype=dtype)
    real, exact = x.real.clone(), x.to(torch.complex128)
    terms, half = torch.fft.fft(x.to(device), dim=1), torch.fft.rfft(real.to(device), dim=1)
    check_terms(terms, torch.fft.fft(exact, dim=1))
    check_terms(torch.fft.ifft(terms, dim=1), exact)
    check_terms(half, torch.fft.rfft(exact.real, dim=1))
    check_terms(torch.fft.irfft(half, shape[1], dim=1), exact.real)
    check_terms(torch.fft.fftn(x.to(device)), torch.fft.fftn(exact))


@pytest.mark.parametrize("n", range(1, 73))
def test_every_short_length(n, device):
    """Lengths about those of vectors, whose last one repeats some terms."""
    for rows in (1, 3, 24):
        x = torch.randn(rows, n, dtype=torch.float64)
        terms, half = torch.fft.fft(x.to(device) + 0j), torch.fft.rfft(x.to(device))
        assert_close(terms.cpu(), torch.fft.fft(x))
        assert_close(half.cpu(), torch.fft.rfft(x))
        assert_close(torch.fft.ifft(terms).cpu(), x + 0j)
        assert_close(torch.fft.irfft(half, n).cpu(), x)


@pytest.mark.parametrize("n", (30, 65536))
def test_real_lines_at_odd_places(n, device):
    """Pairs of real numbers are read as complex ones, which lie at even places."""
    x = torch.randn(20 * n + 1, dtype=torch.float64)
    moved = x.to(device)[1:].view(20, n)
    assert_close(torch.fft.rfft(moved).cpu(), torch.fft.rfft(x[1:].view(20, n)))


def test_istft_brings_back_the_signal(device):
    window, signals = torch.hann_window(64, dtype=torch.float64), torch.randn(2, 512, dtype=torch.float64)
    results = []
    for where in ("cpu", device):
        x, w = signals.to(where).requires_grad_(), window.to(where).requires_grad_()
        spectrum = torch.stft(x, 64, hop_length=16, window=w, return_complex=True)
        y = torch.istft(spectrum * spectrum.abs(), 64, hop_length=16, window=w, length=512)
        again = torch.istft(spectrum, 64, hop_length=16, window=w, length=512)
        results.append([t.detach().cpu() for t in (again, y, *torch.autograd.grad(y.square().sum(), (x, w)))])
    assert_close(results[1], results[0])
    assert_close(results[1][0], signals)


def test_float32_is_as_exact_as_the_length_allows(device):
    x = torch.randn(4, 1000, dtype=torch.complex64)
    error = (torch.fft.fft(x.to(device)).cpu() - torch.fft.fft(x.to(torch.complex128))).abs().max()
    assert error < 1e-6 * x.shape[-1] ** 0.5 * 10


def test_views_and_out(device):
    x = torch.randn(4, 6, 5, dtype=torch.complex64)
    moved = x.to(device)
    assert_close(torch.fft.fft(moved.conj().transpose(0, 2)[:, ::2], dim=1).cpu(),
                 torch.fft.fft(x.conj().transpose(0, 2)[:, ::2], dim=1))
    out = torch.empty(0, dtype=torch.complex64, device=device)
    torch.fft.fftn(moved, dim=(0, 2), out=out)
    assert_close(out.cpu(), torch.fft.fftn(x, dim=(0, 2)))
    assert torch.fft.fft(torch.empty(0, 4, device=device)).shape == (0, 4)


def test_errors(device):
    x = torch.randn(4, 4)
    for call in (lambda t: torch.fft.fft(t, n=0), lambda t: torch.fft.fft(t, dim=5), lambda t: torch.fft.rfft(t + 0j),
                 lambda t: torch.fft.fft(t.half())):
        with pytest.raises(Exception) as expected:
            call(x)
        with pytest.raises(expected.type) as got:
            call(x.to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


def test_results_are_no_views(device):
    """PyTorch's Python references call the transforms above the place where views are noted."""
    x = torch.randn(1, 1, 1, dtype=torch.complex64, device=device)
    for transform in (torch._refs.fft.fft, torch._refs.fft.fftn, torch._refs.fft.ifft2):
        assert not transform(x)._is_view()
        assert not transform(x.expand(1, 3, 1))._is_view()
    assert not torch._refs.fft.irfftn(x, s=(2, 2, 2))._is_view()
