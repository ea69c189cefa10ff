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
