"""What PyTorch does with the bytes of a storage by itself, as if they lay in the host's memory."""

from __future__ import annotations

import torch


def register() -> None:
    torch.UntypedStorage._byteswap = _swapped(torch.UntypedStorage._byteswap)
    torch._C.PyTorchFileWriter.write_record = _written(torch._C.PyTorchFileWriter.write_record)


def _swapped(swap):
    def _byteswap(self, size):
        """Reverses the bytes of each element of that many."""
        if self.device.type != "ocl":
            return swap(self, size)
        if self.nbytes() % size != 0:
            raise RuntimeError(f"the length of data is not a multiple of {size}")
        if size > 1 and self.nbytes() > 0:
            values = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self).view(-1, size)
            values.copy_(values.flip(1))
        return None

    return _byteswap


def _written(write):
    def write_record(self, name, data, size, *more):
        if isinstance(data, (torch.UntypedStorage, torch.TypedStorage)) and data.device.type == "ocl":
            data = data.cpu()
        return write(self, name, data, size, *more)

    return write_record
