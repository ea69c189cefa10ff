"""ignite: ignite.distributed.device() is ocl in a process of its own."""

from __future__ import annotations

from torch_ocl.integrations import _view


def apply(_: str = "ignite") -> None:
    from ignite.distributed.comp_models import base

    _view.show_view(base)
