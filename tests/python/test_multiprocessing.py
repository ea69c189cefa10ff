"""Tensors of the device in queues between processes."""

import os
import subprocess
import sys

SCRIPT = """
import sys
import torch
import torch.multiprocessing as mp


def echo(inbox, outbox):
    while True:
        try:
            item = inbox.get()
        except RuntimeError as error:     # what could not be sent
            item = str(error)
        if item is None:
            return
        outbox.put(item)


def send(outbox, value):
    outbox.put(value)


if __name__ == "__main__":
    x = torch.arange(24.0).reshape(4, 6).to("ocl")
    values = [x, x.t()[1:, ::2], x[2, 3], x[:0], x.half(), x > 3, torch.nn.Parameter(x), x.clone().requires_grad_(),
              torch.nn.Parameter(x, requires_grad=False), torch.complex(x, x).conj(), torch.complex(x, x).conj().imag,
              torch.ones(3)]
    model = torch.nn.Linear(3, 2).to("ocl").share_memory()

    for method in ("spawn", "forkserver"):
        context = mp.get_context(method)
        inbox, outbox = context.Queue(), context.Queue()
        process = context.Process(target=echo, args=(inbox, outbox), daemon=True)
        process.start()

        def there_and_back(value):
            inbox.put(value)
            return outbox.get(timeout=300)

        for value, back in zip(values, there_and_back(values)):
            assert type(back) is type(value) and back.device == value.device and back.dtype == value.dtype, value
            assert back.stride() == value.stride() and back.storage_offset() == value.storage_offset(), value
            assert back.requires_grad == value.requires_grad and torch.equal(back.cpu(), value.cpu()), value
        whole, row = there_and_back([x, x[1]])
        whole[1, 0] = -7
        assert row[0].item() == -7 and x[1, 0].item() == 6        # shared with each other, not with the sender
        for p, q in zip(there_and_back(model).parameters(), model.parameters()):
            assert p.is_ocl and p.requires_grad and torch.equal(p.cpu(), q.cpu())

        # What cannot be sent is heard of by the reader of a queue, and at once by the sender where it pickles itself.
        for value, why in (((x * 2).requires_grad_() * 2, "detach"), (torch.ocl.Event(), "belongs to its process"),
                           (torch.ocl.Stream(), "belongs to its process")):
            answer = there_and_back(value)
            assert isinstance(answer, str) and why in answer, (value, answer)
            try:
                context.SimpleQueue().put(value)
            except (RuntimeError, TypeError) as error:
                assert why in str(error)
            else:
                raise AssertionError(f"{value} was sent")
        inbox.put(None)
        process.join()
        assert process.exitcode == 0

    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=send, args=(queue, x))
    process.start()
    try:
        queue.get(timeout=300)
    except RuntimeError as error:
        assert "spawn" in str(error), error
    else:
        raise AssertionError("a forked process sent a tensor of the device")
    process.join()


    class Inherited(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return torch.ones(1, device="ocl") if sys.argv[1] == "made" else x

    for sys.argv[1:] in (["made"], ["inherited"]):
        for size in (None, 2):
            try:
                list(torch.utils.data.DataLoader(Inherited(), batch_size=size, num_workers=1, timeout=300))
            except RuntimeError as error:
                assert "spawn" in str(error), error
            else:
                raise AssertionError("a forked worker used the device")
"""


def test_tensors_in_queues(tmp_path):
    script = tmp_path / "processes.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "TORCH_OCL_FALLBACK": "error"})
    assert done.returncode == 0, done.stdout + done.stderr

