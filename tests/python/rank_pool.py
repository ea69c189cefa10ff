"""Processes of one group that live on and run one function after another, so that tests with several ranks are fast."""
import importlib
import multiprocessing
import os
import traceback


def rendezvous():
    """(store, environment): ranks with this environment meet at a store that this process serves, as torchrun's does.
    A rank that served it would need a port which nobody takes between its choice and its use."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return store, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
                   "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}


def _serve(rank, size, timeout, pipe):
    import datetime
    import warnings

    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    torch.ocl.set_fallback_policy("error")
    dist.init_process_group(timeout=datetime.timedelta(seconds=timeout))
    pipe.send(("ready", None))
    while (job := pipe.recv()) is not None:
        module, name, arguments = job
        torch.manual_seed(0)
        try:
            pipe.send(("result", getattr(importlib.import_module(module), name)(rank, size, *arguments)))
        except BaseException as error:   # told to the test
            pipe.send(("error", (type(error).__name__, str(error), traceback.format_exc())))
    dist.destroy_process_group()


class RankPool:
    """Limits are for processes that hang: a machine with other work may need long for what is done in a second."""

    def __init__(self, size=2, timeout=300, environments=({}, {})):
        context = multiprocessing.get_context("spawn")
        self.store, meeting = rendezvous()
        self.processes, self.pipes = [], []
        for rank in range(size):
            mine, theirs = context.Pipe()
            environment = meeting | environments[rank]
            before = {key: os.environ.get(key) for key in environment}
            os.environ.update(environment)   # read when the process starts
            process = context.Process(target=_serve, args=(rank, size, timeout, theirs), daemon=True)
            process.start()
            theirs.close()   # so that reading ends when the process does
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)
            self.processes.append(process)
            self.pipes.append(mine)
        assert [kind for kind, _ in self._answers(600)] == ["ready"] * size

    def _answers(self, seconds):
        answers = []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(seconds):
                raise TimeoutError(f"rank {rank} did not answer within {seconds} s")
            try:
                answers.append(pipe.recv())
            except (EOFError, ConnectionError):
                answers.append(("gone", None))
        return answers

    def outcomes(self, function, *arguments, seconds=400):
        """What function(rank, size, *arguments) gave on each rank: ("result", value), ("error", (type, text, trace)) or
        ("gone", None)."""
        for pipe in self.pipes:
            pipe.send((function.__module__, function.__name__, arguments))
        return self._answers(seconds)

    def __call__(self, function, *arguments, seconds=400):
        """The values of all ranks; fails if one raised."""
        outcomes = self.outcomes(function, *arguments, seconds=seconds)
        for rank, (kind, value) in enumerate(outcomes):
            assert kind == "result", f"rank {rank}: {value[2] if value else kind}"
        return [value for _, value in outcomes]

    def close(self):
        for pipe, process in zip(self.pipes, self.processes):
            if process.is_alive():
                try:
                    pipe.send(None)
                except OSError:
                    pass
        for process in self.processes:
            process.join(60)
            if process.is_alive():
                process.kill()
                process.join()
