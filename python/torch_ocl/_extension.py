"""What C++ extensions of PyTorch are built with: folders and options for torch.utils.cpp_extension."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).absolute().parent


def include_paths() -> list[str]:
    """The folder of <torch_ocl/extension.hpp> and of clprim's headers."""
    return [str(_PACKAGE / "include")]


def library_paths() -> list[str]:
    """The folder of libclprim."""
    return [str(_PACKAGE.parent / "clprim" / "lib")]


def extension_options() -> dict:
    """Options of torch.utils.cpp_extension.load and load_inline:

        load("name", ["name.cpp"], **torch_ocl.extension_options())

    Extension and CppExtension of setup.py take include_paths() as include_dirs, and what is here as extra_compile_args
    and extra_link_args.
    """
    folder = library_paths()[0]
    library = min(Path(folder).glob("libclprim.so.*"), key=lambda path: len(path.name), default=None)
    if library is None:
        raise RuntimeError(f"libclprim was not found in {folder}")
    return {"extra_include_paths": include_paths(), "extra_cflags": ["-std=c++20"],
            "extra_ldflags": [f"-L{folder}", f"-l:{library.name}", f"-Wl,-rpath,{folder}"]}
