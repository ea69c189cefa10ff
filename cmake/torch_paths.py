"""Print PyTorch's include folder, library folder, C++ ABI and version, as a CMake list."""
import os

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch  # noqa: E402
from torch.utils import cpp_extension  # noqa: E402

include = [p for p in cpp_extension.include_paths() if p.endswith("include")][0]
lib = os.path.join(os.path.dirname(torch.__file__), "lib")
print(include, lib, int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.__version__, sep=";")
