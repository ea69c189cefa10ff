"""pytest plugin of tools/pytorch_suites: runs the device-generic cases of one test file on one device.

The environment variable PYTORCH_SUITES_JOB names a JSON file that says which (`Job` in runner.py). A line goes to the
results file when a case starts and one when it ends, so that a crash or a hang costs one case and no more.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import re
import resource
import sys
import types

import pytest

with open(os.environ["PYTORCH_SUITES_JOB"]) as job_file:
    JOB = json.load(job_file)
DEVICE = JOB["device"]
os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = DEVICE
# A case that asks for the memory of a data centre gets an error, and other processes keep theirs. Address space that
# is only reserved does not count.
resource.setrlimit(resource.RLIMIT_DATA, (JOB["memory"], JOB["memory"]))

import torch  # noqa: E402
import torch.testing._internal.common_cuda as common_cuda  # noqa: E402
import torch.testing._internal.common_device_type as common_device_type  # noqa: E402
import torch.testing._internal.common_methods_invocations as common_methods_invocations  # noqa: E402
import torch.testing._internal.common_nn as common_nn  # noqa: E402
import torch.testing._internal.common_optimizers as common_optimizers  # noqa: E402
import torch.testing._internal.common_utils as common_utils  # noqa: E402

# Classes of PyTorch's tests of torch.compile that are there for each device: `DynamicShapesGPUTests`.
INDUCTOR_CLASS = re.compile("Cpu(?=Tests?$)" if DEVICE == "cpu" else "GPU(?=Tests?$)")
ACCELERATORS = {"cuda", "xpu", "mps", "mtia", "hpu"}


def put_device_into_tests():
    """Makes PyTorch's generators of device-generic tests serve the device, and the CPU for the same cases."""
    natives = tuple(dict.fromkeys((*common_utils.NATIVE_DEVICES, "privateuse1", "ocl")))
    common_utils.NATIVE_DEVICES = common_device_type.NATIVE_DEVICES = natives
    # Names of classes and cases end in the device's name from the first class on.
    common_device_type.PrivateUse1TestBase.device_type = "ocl"
    common_device_type.DeviceTypeTestBase.bypass_device_restrictions = True
    common_device_type.PrivateUse1TestBase.bypass_device_restrictions = True

    everywhere = common_device_type.get_desired_device_type_test_bases

    def device_bases(except_for=None, only_for=None, *arguments, **keywords):
        named = {only_for} if isinstance(only_for, str) else set(only_for or ())
        # Tests of some accelerator are tests of this one; tests of the CPU alone are not.
        return everywhere(None, "cpu" if named == {"cpu"} else None)

    common_device_type.get_desired_device_type_test_bases = device_bases

    for optimizer in common_optimizers.optim_db:
        if "cuda" in optimizer.supports_fused_on:
            optimizer.supports_fused_on = (*optimizer.supports_fused_on, "ocl")

    wrap = common_device_type.onlyOn.__call__

    def for_accelerators(self, function):
        devices = {self.device_type} if isinstance(self.device_type, str) else set(self.device_type)
        if devices & ACCELERATORS:
            return wrap(self, function)     # runs, since the restrictions are bypassed

        def only_there(case, *arguments, **keywords):
            if case.device_type not in devices:
                raise common_utils.unittest.SkipTest(f"Only runs on {sorted(devices)}")
            return function(case, *arguments, **keywords)
        return common_utils.wraps(function)(only_there)

    common_device_type.onlyOn.__call__ = for_accelerators


def nothing(*arguments, **keywords):
    """A decorator, or a function that makes one, which changes nothing."""
    if len(arguments) == 1 and callable(arguments[0]) and not keywords:
        return arguments[0]
    return lambda function: function


def put_device_into_inductor_tests():
    """The tests of torch.compile are made for the CPU and for the one GPU that Triton serves: this device becomes
    it."""
    if DEVICE == "cpu":
        return
    with contextlib.suppress(ImportError):
        import torch.testing._internal.inductor_utils as inductor_utils
        import torch.testing._internal.triton_utils as triton_utils
        inductor_utils.GPU_TYPE = DEVICE
        conditions = ["HAS_GPU", "RUN_GPU"]
        decorators = ["requires_gpu", "requires_gpu_and_triton"]
        if JOB["rename"] == "cuda":
            conditions += ["HAS_CUDA", "HAS_CUDA_AND_TRITON"]
            decorators += ["requires_cuda", "requires_cuda_and_triton"]
        for module in (inductor_utils, triton_utils):
            for name in conditions:
                setattr(module, name, True)
            for name in decorators:
                setattr(module, name, nothing)
        import torch._inductor.test_operators  # noqa: F401
        torch.library.impl("_inductor_test::realize", DEVICE, lambda x: x.clone())


def supply_names_of_other_versions():
    """Tests of neighbouring versions import helpers that the installed version no longer has, or not yet: conditions
    become False, decorators do nothing. What has another meaning stays an ImportError."""
    modules = [common_utils, common_device_type, common_cuda, common_methods_invocations, common_nn,
               common_optimizers]
    for name in ("testing._internal.common_mkldnn", "testing._internal.inductor_utils",
                 "testing._internal.triton_utils",
                 "testing._internal.common_quantization", "nn.attention.flex_attention", "_inductor.compile_fx",
                 "_inductor.codecache"):
        with contextlib.suppress(Exception):
            modules.append(importlib.import_module(f"torch.{name}"))
    decorators = ("skip", "expected", "requires", "only", "bf32", "tf32", "reduced", "precision", "largeT", "slow",
                  "xfail",
                  "with_tf32", "create_nested_block_mask")

    def missing(name, *arguments, **keywords):
        raise common_utils.unittest.SkipTest(f"the installed PyTorch has no {name}")

    def supply(name):
        if name == "new_module_tests":
            return common_nn.get_new_module_tests()
        if name == "tf32_is_not_fp32":
            return lambda: False
        if name == "dtype_abbrs":
            return importlib.import_module("torch.utils._dtype_abbrs").dtype_abbrs
        if name in ("complex_memory_overlap", "add_kernel", "cpp_prefix_path"):
            return functools.partial(missing, name)
        if name.endswith("_and_refs"):
            operators = list(getattr(common_methods_invocations, name.removesuffix("_and_refs")))
            return operators + [reference for reference in common_methods_invocations.python_ref_db
                                if any(reference.torch_opinfo is operator for operator in operators)
                                and not any(reference is operator for operator in operators)]
        if name.startswith(("TEST_", "IS_", "HAS_", "PLATFORM_SUPPORTS_", "SM")):
            return False
        if name.startswith(decorators):
            return nothing
        raise AttributeError(name)

    for module in modules:
        module.__getattr__ = supply
    # torchvision's tests name the functions for CV-CUDA that one of its versions had.
    with contextlib.suppress(ImportError):
        transforms = importlib.import_module("torchvision.transforms.v2")
        for module in (transforms, transforms.functional, *vars(transforms.functional).values()):
            if isinstance(module, types.ModuleType) and not hasattr(module, "__getattr__"):
                module.__getattr__ = functools.partial(cvcuda_function, module.__name__)


def bear_what_is_deprecated():
    """Tests of versions before 2.14 make every warning of torch.jit.script an error."""
    script = sys.modules["torch.jit._script"]
    script.warnings = types.SimpleNamespace(**(vars(script.warnings) | {"warn": lambda *arguments, **keywords: None}))


def cvcuda_function(module, name):
    if "cvcuda" not in name.lower():
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    if name.startswith("_is_"):
        return lambda *arguments: False

    def missing(*arguments, **keywords):
        raise common_utils.unittest.SkipTest(f"the installed torchvision has no {name}")
    return missing


def forgive_operators_of_other_versions():
    """functorch's tests mark cases of operators, and end where the installed version does not have one of them."""
    if not any(os.path.basename(path) == "functorch" for path in JOB["paths"][:1]):
        return
    functorch_utils = importlib.import_module("common_utils")
    databases = ("op_db", "additional_op_db", "autograd_function_db", "custom_op_db")
    known = {(operator.name, operator.variant_test_name)
             for database in databases for operator in getattr(functorch_utils, database, ())}
    mark, loosen = functorch_utils.skipOps, functorch_utils.opsToleranceOverride

    def skip_known(case, base, marks):
        return mark(case, base, {entry for entry in marks if (entry.op_name, entry.variant_name) in known})

    def loosen_known(case, base, overrides):
        return loosen(case, base, [entry for entry in overrides if tuple(entry[:2]) in known])

    functorch_utils.skipOps, functorch_utils.opsToleranceOverride = skip_known, loosen_known


def name_of(item):
    """The case's name without its file and device: the same on every device."""
    parts = re.sub(r"^.*?::", "", item.nodeid).split("::")
    if len(parts) > 1:
        parts[0] = re.sub(f"{DEVICE.upper()}$", "", parts[0])
        parts[0] = INDUCTOR_CLASS.sub("DEVICE", parts[0])
    parts[-1] = re.sub(rf"^(.*)_{DEVICE}(?=_|$|\[)", r"\1_DEVICE", parts[-1])     # the last one
    return "::".join(parts)


@functools.cache
def names_device(case_class):
    """Whether a class of tests, which was not made for the device, is about it nevertheless."""
    source = inspect.getsource(inspect.getmodule(case_class))
    return "instantiate_device_type_tests" not in source or DEVICE in inspect.getsource(case_class)


def of_device(item):
    """Whether a case was made for the device, or is in a file that names it by hand. A case that has the device as a
    parameter is there for others too."""
    made_for_device = item.cls is not None and (item.cls.__name__.endswith(DEVICE.upper())
                                                or bool(INDUCTOR_CLASS.search(item.cls.__name__)))
    if JOB["rename"] and not made_for_device:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        devices = {str(value) for value in parameters} & {DEVICE, "cpu", "mps"}
        return DEVICE in devices or not devices and (item.cls is None or names_device(item.cls))
    return made_for_device


def chosen_of(items):
    """(all cases of the device, those to run) in the order of the file."""
    cases = [item for item in items if of_device(item)]
    if JOB["cases"] is not None:
        wanted = set(JOB["cases"])
        return cases, [item for item in cases if name_of(item) in wanted]
    kept = [item for item in cases if re.search(JOB["match"], name_of(item))
            and not (JOB["exclude"] and re.search(JOB["exclude"], name_of(item)))]
    every = JOB["sample"]
    if JOB["at_most"]:
        every = max(every, -(-len(kept) // JOB["at_most"]))
    return cases, kept[JOB["offset"]::every]


def write(**entry):
    with open(JOB["results"], "a") as results:
        results.write(json.dumps({"file": JOB["label"], "device": DEVICE, **entry}) + "\n")


def first_error(error):
    """The exception below PyTorch's remark about which sample input it came from."""
    while error.__cause__ is not None and "aused by" in str(error).split("\n")[0]:
        error = error.__cause__
    return error


def reason_of(error):
    error = first_error(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if text.startswith(("Tensor-likes are not", "Scalars are not")):     # how far they lie apart
        text = " ".join(lines[:4])
    return f"{type(error).__name__}: {text}"[:400]


class DevicePlugin:
    def __init__(self):
        self.outcome = {}

    def pytest_collection_modifyitems(self, config, items):
        cases, chosen = chosen_of(items)
        done = set(JOB["done"])
        names = [name_of(item) for item in chosen]
        if not JOB["collected"] and cases:
            write(event="collected", total=len(cases), chosen=names)
        for name in sorted(set(JOB["cases"] or ()) - set(names) - done):
            write(event="end", case=name, outcome="absent")
        items[:] = [item for item in chosen if name_of(item) not in done]

    def pytest_collectreport(self, report):
        if report.failed:
            errors = re.findall(r"^E\s+(\S.*)", report.longreprtext, re.MULTILINE)
            write(event="problem", reason=errors[-1] if errors else report.longreprtext[-200:])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.outcome = {"outcome": "passed", "reason": "", "error": ""}
        write(event="start", case=name_of(item))
        try:
            return (yield)
        finally:
            if DEVICE == "ocl":
                try:        # what a kernel found is heard of here
                    torch.accelerator.synchronize()
                except Exception as error:
                    self.failed(f"after the case: {reason_of(error)}", "")
            write(event="end", case=name_of(item), **self.outcome)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.failed:
            error = call.excinfo.value if call.excinfo else None
            self.failed(reason_of(error) if error else "", report.longreprtext)
        elif report.skipped and self.outcome["outcome"] == "passed":
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            expected = hasattr(report, "wasxfail")
            self.outcome.update(outcome="expected failure" if expected else "skipped", reason=text[-300:])
        return report

    def failed(self, reason, text):
        if self.outcome["outcome"] != "failed":
            self.outcome = {"outcome": "failed", "reason": reason, "error": text[-4000:]}


def pytest_configure(config):
    config.pluginmanager.register(DevicePlugin())
    if DEVICE == "ocl":
        if not torch.ocl.is_available():
            raise pytest.UsageError("no OpenCL device: `python -m torch_ocl doctor` says what is missing")
        torch.ocl.set_fallback_policy(JOB["fallback"])


    for name in (f"torch_{JOB['rename']}", f"pytorch_{JOB['rename']}") if JOB["rename"] else ():
        sys.modules[name] = types.ModuleType(name)      # the extension whose device's name these tests had
        sys.modules[name].NUM_DEVICES = torch.accelerator.device_count()


put_device_into_tests()
put_device_into_inductor_tests()
supply_names_of_other_versions()
bear_what_is_deprecated()
# Tests name their siblings (`from functorch_additional_op_db import ...`), wherever a changed copy lies.
sys.path[1:1] = JOB["paths"]
forgive_operators_of_other_versions()
