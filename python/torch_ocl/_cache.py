"""Where compiled programs are kept."""
import os
from pathlib import Path


def cache_folder() -> Path | None:
    """The folder, as src/core/disk_cache.cpp finds it; None where nothing is kept."""
    if os.environ.get("CLPRIM_CACHE_DISABLE", "0") not in ("", "0"):
        return None
    if folder := os.environ.get("CLPRIM_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clprim"
