"""Random numbers: the default generator of each device."""

from __future__ import annotations

import torch

from torch_ocl import _state

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class _DefaultGenerators:
    """The default generators by device index, like a tuple. Devices are looked for only when one is asked for."""

    def __len__(self) -> int:
        return 0 if _state.extension is None else _state.extension.device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(len(self)))[index]
        if not -len(self) <= index < len(self):
            raise IndexError("tuple index out of range")
        return _state.c().default_generator(index % len(self))

    def __iter__(self):
        return (self[i] for i in range(len(self)))


default_generators = _DefaultGenerators()


def _generator(device=None) -> torch.Generator:
    return _state.c().default_generator(_state.index_of(device))


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    if _state.extension is not None and len(default_generators) > 0:
        _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices, now or when they are first used: torch.manual_seed calls this everywhere,
    and must not open a driver. No effect where torch.ocl is not available."""
    if _state.extension is not None:
        _state.extension.seed_all(_as_signed(int(seed)))


def _as_signed(seed: int) -> int:
    return (seed + 2**63) % 2**64 - 2**63


def seed() -> None:
    """Seeds the generator of the current device with a random number."""
    _generator().seed()


def seed_all() -> None:
    """Seeds all devices with the same random number."""
    random_seed = 0
    for index, generator in enumerate(default_generators):
        if index == 0:
            random_seed = generator.seed()
        else:
            generator.manual_seed(random_seed)


def initial_seed() -> int:
    """The seed of the current device."""
    return _generator().initial_seed()


def get_rng_state(device="ocl") -> torch.Tensor:
    """State of a device's generator, as a CPU tensor of bytes."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device="ocl") -> None:
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
