"""python -m torch_ocl doctor: what it finds on machines that this one is not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from comparison import device
from faults import broken_driver, fault_layer
from torch_ocl import _loader, doctor, doctor_drivers, doctor_self_test
from torch_ocl.doctor_self_test import FAMILIES, failure, self_test


class Collected(doctor.Findings):
    def __init__(self):
        super().__init__()
        self.all = []

    def add(self, state, text, remedy=""):
        self.all.append((state, text, remedy))


def bus(root, **devices):
    """A /sys with PCI devices, given as class and vendor."""
    for slot, (kind, vendor) in devices.items():
        folder = root / "bus/pci/devices" / slot
        folder.mkdir(parents=True)
        (folder / "class").write_text(kind + "\n")
        (folder / "vendor").write_text(vendor + "\n")
    return root


def run_doctor(*arguments, **environment):
    other = ("OCL_ICD_", "CLPRIM_DEVICES") if "OCL_ICD_VENDORS" in environment else ("OCL_ICD_",)
    env = {k: v for k, v in os.environ.items() if not k.startswith(other)} | environment
    return subprocess.run([sys.executable, "-m", "torch_ocl", "doctor", *arguments], env=env, capture_output=True,
                          text=True, timeout=900)


def test_a_package_for_each_vendor_on_the_bus(tmp_path):
    sysfs = bus(tmp_path, a=("0x030000", "0x8086"), b=("0x038000", "0x1002"), c=("0x120000", "0x10de"),
                d=("0x020000", "0x8086"))
    found = Collected()
    doctor_drivers.check_gpus(found, ["pocl.icd"], sysfs, tmp_path)
    assert [(state, "Intel" in text or "AMD" in text or "NVIDIA" in text) for state, text, _ in found.all] == \
        [("note", True)] * 3
    assert {package for package in ("intel-opencl-icd", "mesa-opencl-icd", "nvidia-opencl-icd")
            if any(package in remedy for *_, remedy in found.all)} == \
        {"intel-opencl-icd", "mesa-opencl-icd", "nvidia-opencl-icd"}


def test_drivers_that_are_there_and_other_cards_are_no_finding(tmp_path):
    sysfs = bus(tmp_path, a=("0x030000", "0x8086"), b=("0x020000", "0x10de"), c=("0x030000", "0x1a03"))
    found = Collected()
    doctor_drivers.check_gpus(found, ["intel.icd"], sysfs, tmp_path)
    assert not found.all


@pytest.mark.skipif(os.getuid() == 0, reason="root may open everything")
def test_a_render_node_that_is_closed(tmp_path):
    (tmp_path / "renderD128").touch(mode=0o000)
    found = Collected()
    doctor_drivers.check_gpus(found, [], tmp_path, tmp_path)
    assert [state for state, *_ in found.all] == ["PROBLEM"] and "usermod -aG" in found.all[0][2]


@pytest.mark.parametrize("value, state", [("/nonexistent", "PROBLEM"), ("{folder}", "PROBLEM"), ("libpocl.so", "note")])
def test_variables_that_hide_drivers(tmp_path, value, state):
    found = Collected()
    doctor_drivers.check_hidden(found, {"OCL_ICD_VENDORS": value.format(folder=tmp_path)})
    assert [(s, "OCL_ICD_VENDORS" in text and "unset" in remedy) for s, text, remedy in found.all] == [(state, True)]


def test_without_such_variables_nothing_is_said():
    found = Collected()
    doctor_drivers.check_hidden(found, {})
    assert not found.all


def test_a_hidden_driver_and_what_helps_are_the_last_words():
    done = run_doctor(OCL_ICD_VENDORS="/nonexistent")
    assert done.returncode == 1
    last = "OCL_ICD_VENDORS=/nonexistent hides every driver: there is no such file or folder"
    assert done.stdout.endswith(f"\n1 problem:\n  {last}\n    -> unset OCL_ICD_VENDORS\n"), done.stdout


CRASHES = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }"


@pytest.mark.parametrize("text, why", [("int f(void) { return 0; }", "is no OpenCL driver"),
                                       (CRASHES, r"ends the process that loads it \(SIG\w+\)")])
def test_a_driver_that_does_not_load(tmp_path, text, why):
    library = tmp_path / "libdriver.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=text, text=True, check=True)
    assert re.fullmatch(why, doctor_drivers.why_broken(str(library)))
    assert "cannot be loaded" in doctor_drivers.why_broken(str(tmp_path / "nothing.so"))
    assert f"rm {tmp_path}/left.icd" in doctor_drivers.mend_driver(tmp_path / "left.icd")


@pytest.fixture(scope="module")
def usual():
    """What is said of this machine as it is."""
    return run_doctor("--report")


@pytest.mark.skipif("CLPRIM_DEVICES" in os.environ, reason="devices were chosen")
def test_a_machine_without_a_gpu_is_told_so(usual):
    done = usual
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("```\n") and done.stdout.endswith("```\n") and "torch " in done.stdout
    if torch.ocl.get_device_properties(0).kind == "cpu":
        assert "no GPU found: ocl:0 is your CPU" in done.stdout and "All is well" not in done.stdout


@pytest.mark.parametrize("fault, said", [
    ("clCreateContext=-2", "failed, .*'s driver is broken: clCreateContext failed: CL_DEVICE_NOT_AVAILABLE"),
    ("clEnqueueNDRangeKernel=0", "instead of 10: this driver computes wrong")])
def test_a_broken_driver_is_named_once(tmp_path, fault, said):
    done = run_doctor("--test", OPENCL_LAYERS=fault_layer(), FAULT_LAYER=fault, CLPRIM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"\[PROBLEM\] a first computation .*" + said, done.stdout), done.stdout
    update = doctor_drivers.update_command(torch.ocl.get_device_properties(0).platform_name)
    last = done.stdout.partition("\n1 problem:\n")[2].splitlines()
    assert len(last) == 2 and last[1] == f"    -> {update}, or choose another device with CLPRIM_DEVICES", done.stdout
    assert "self-test: not run" in done.stdout


def test_a_driver_whose_compiler_is_broken(tmp_path):
    done = run_doctor("--test", OCL_ICD_VENDORS=broken_driver(), CLPRIM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ocl:0  Broken GPU [Broken OpenCL, driver 0.1]" in done.stdout
    what, remedy = done.stdout.partition("\n1 problem:\n")[2].splitlines()
    assert re.search("Broken OpenCL's driver is broken: program [^ ]* did not compile: "
                     "error: the compiler's library is missing$", what), done.stdout
    assert remedy == "    -> install its vendor's newest driver, or choose another device with CLPRIM_DEVICES"


def test_the_device_that_works_beside_a_broken_one_is_named(tmp_path):
    registered = [file.read_text().strip() for file in Path("/etc/OpenCL/vendors").glob("*.icd")]
    working = next((library for library in registered if not doctor_drivers.why_broken(library)), None)
    if not working:
        pytest.skip("no driver is registered that a folder of .icd files could name")
    for name, library in (("a", broken_driver()), ("b", working)):
        (tmp_path / f"{name}.icd").write_text(library + "\n")
    done = run_doctor(OCL_ICD_VENDORS=str(tmp_path), CLPRIM_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 1 and "ocl:0  Broken GPU" in done.stdout, done.stdout + done.stderr
    beside = "not listed: 1:0 .*: CPUs are not counted beside GPUs; CLPRIM_DEVICES=1:0 chooses it"
    assert re.search(beside, done.stdout), done.stdout


def test_a_driver_that_finds_no_device():
    done = run_doctor(OCL_ICD_VENDORS=broken_driver(), BROKEN_DRIVER_DEVICES="0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[note] the driver Broken OpenCL finds no device of its own" in done.stdout
    assert "1 problem:" in done.stdout and "the drivers that are there, Broken OpenCL, offer none" in done.stdout


def test_no_driver_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_drivers, "version_of", lambda package: None)
    found = Collected()
    doctor_drivers.check_drivers(found, tmp_path)
    remedy = {text: remedy for state, text, remedy in found.all if state == "PROBLEM"}["there is no OpenCL driver"]
    assert "pip install intel-opencl-rt" in remedy and "pocl-opencl-icd" in remedy


@pytest.mark.skipif("CLPRIM_DEVICES" in os.environ, reason="devices were chosen")
def test_two_drivers_of_one_device(usual):
    left_out = r"not listed: .*: a second driver for a device that is listed; CLPRIM_DEVICES=\d+:\d+ chooses it"
    if not re.search(left_out, usual.stdout):
        pytest.skip("no two drivers show one device here")
    done = run_doctor(CLPRIM_DEVICES="all")
    assert done.returncode == 0, done.stdout
    assert "[note] ocl:1 is a device that another driver shows, too" in done.stdout, done.stdout


@pytest.mark.parametrize("error, helps", [("libOpenCL.so.1: cannot open shared object file", True),
                                          ("_C.so: undefined symbol: x", False)])
def test_a_missing_loader_comes_with_what_helps(error, helps):
    assert ("apt-get install ocl-icd-libopencl1" in _loader._missing_loader(error)) == helps


def test_self_test_is_right_here_and_finds_what_is_wrong(monkeypatch):
    double = torch.ocl.get_device_properties(0).fp64
    assert [entry for entry in self_test(device, double) if entry[2]] == []
    wrong = {"reduce": (lambda a, b: a.sum() + (a.device.type == "ocl"), (torch.int32,)), "copy": FAMILIES["copy"]}
    monkeypatch.setattr(doctor_self_test, "FAMILIES", wrong)
    assert {family for family, _, why in self_test(device, double) if why} == {"reduce"}


def test_self_test_takes_an_error_for_wrong():
    def broken(a, b):
        if a.device.type == "ocl":
            raise RuntimeError("no such kernel\nand more")
        return a

    assert failure(broken, torch.float32, device) == "no such kernel"
