"""Storages whose bytes PyTorch would read as the host's memory."""

import io

import pytest
import torch

from comparison import device


def storage_of(values):
    return torch.tensor(values).to(device).untyped_storage()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex64],
                         ids=lambda dtype: str(dtype)[6:])
def test_byteswap(dtype):
    values = torch.arange(48, dtype=torch.uint8)
    here, there = values.clone().untyped_storage(), values.to(device).untyped_storage()
    here.byteswap(dtype)
    assert there.byteswap(dtype) is None
    assert there.tolist() == here.tolist()


def test_byteswap_of_nothing_and_of_a_part():
    storage_of([]).byteswap(torch.float32)
    with pytest.raises(RuntimeError, match="multiple of 8"):
        storage_of([1.0, 2.0, 3.0]).byteswap(torch.float64)


def test_zip_writer_takes_a_storage():
    buffer = io.BytesIO()
    storage = storage_of([1.0, 2.0])
    writer = torch._C.PyTorchFileWriter(buffer)
    writer.write_record("numbers", storage, storage.nbytes())
    writer.write_record("text", b"abc", 3)
    writer.write_end_of_file()
    buffer.seek(0)
    reader = torch._C.PyTorchFileReader(buffer)
    assert reader.get_record("numbers") == bytes(storage.cpu().tolist()) and reader.get_record("text") == b"abc"


def test_what_belongs_to_the_host_is_refused():
    storage = storage_of([1.0, 2.0])
    for refused in (storage._share_fd_cpu_, storage._share_filename_cpu_, storage.pin_memory):
        with pytest.raises((RuntimeError, TypeError), match="CPU"):
            refused()
    assert storage.is_shared() and storage.share_memory_() is storage and not storage.is_pinned()
