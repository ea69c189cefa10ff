"""Runs PyTorch's own device-generic tests on `ocl` and says which pass, compared with the CPU.

    python tools/pytorch_suites PYTORCH/test                        # the suites of docs/pytorch_suites.md
    python tools/pytorch_suites PYTORCH/test/test_sort_and_select.py --at-most 200 --results sort.jsonl
    python tools/pytorch_suites FOLDER --rename xpu                 # tests that name a device by hand
    python tools/pytorch_suites --report --results out/*.jsonl --markdown table.md

A case that passes is not run on the CPU. What has ended is not run again while the results file is kept.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

import report
from runner import Choice, TestFile, read_results, run_file

SUITES = """test_torch test_ops test_ops_gradients test_ops_fwd_gradients test_modules test_optim test_nn nn/* test_view_ops
test_indexing test_reductions test_sort_and_select test_shape_ops test_tensor_creation_ops test_binary_ufuncs
test_unary_ufuncs test_type_promotion test_scatter_gather_ops test_linalg test_spectral_ops test_foreach
test_segment_reductions test_complex test_autograd test_transformers test_sparse test_sparse_csr test_nestedtensor
test_serialization distributions/test_distributions test_dataloader test_dlpack test_autocast functorch/test_ops
functorch/test_vmap inductor/test_torchinductor inductor/test_torchinductor_dynamic_shapes
inductor/test_torchinductor_opinfo""".split()
MARK = "<!-- below: written by tools/pytorch_suites --markdown -->"
# These fill the memory of a large device, count CUDA's allocations, are about formats of other devices, or about a
# function of CV-CUDA that the installed torchvision does not have.
EXCLUDE = (r"_large|large_|launch_config|64bit|lazy_clone|cow_materialize|cow_input|quint|qint|qscheme|memory_leak|"
           r"cuda_memory|\[missing-")


def test_files(path, prefix):
    """Test files of a file, of a PyTorch tree (its suites above), or of any other folder (all)."""
    path = Path(path).resolve()
    if path.is_file() and "distributed" in path.parts:
        root = next(parent for parent in path.parents if parent.name == "distributed")
        return [TestFile(path, prefix + str(path.relative_to(root)), [str(path.parent), str(root)])]
    if path.is_file():
        return [TestFile(path, prefix + path.name, [str(path.parent), str(path.parent.parent)])]
    if (path / "test" / "test_torch.py").exists():
        path = path / "test"
    if (path / "test_ops_gradients.py").exists():
        found = [file for suite in SUITES for file in sorted(path.glob(f"{suite}.py"))
                 if file.name.startswith("test_")]
    else:
        found = sorted(path.rglob("test_*.py"))
    return [TestFile(file, prefix + str(file.relative_to(path)), [str(file.parent), str(path)]) for file in found]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="a checked-out PyTorch, a folder of test files, or test files")
    parser.add_argument("--match", default="", help="regular expression for names of cases (default: all)")
    parser.add_argument("--exclude", default=EXCLUDE,
                        help="regular expression for names of cases left out (default: %(default)s)")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="run each N-th case of a file")
    parser.add_argument("--offset", type=int, default=0, metavar="N",
                        help="begin a sample at the N-th case, to draw others than before")
    parser.add_argument("--at-most", type=int, default=0, metavar="N",
                        help="run N cases of a file, evenly spread (default: all)")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS",
                        help="for a case (default: %(default)s)")
    parser.add_argument("--memory", type=float, default=8, metavar="GIB", help="for a process (default: %(default)s)")
    parser.add_argument("--fallback", choices=("error", "warn", "allow"), default="error",
                        help="policy for operators without a kernel (default: %(default)s)")
    parser.add_argument("--rename", default="", metavar="DEVICE",
                        help="the files name this device by hand: run copies that name ocl, or cpu")
    parser.add_argument("--ranks", type=int, default=0, metavar="N",
                        help="the files test torch.distributed: run them with N ranks on the device, listed N times")
    parser.add_argument("--prefix", default="", help="put before the names of the files, to tell trees apart")
    parser.add_argument("--results", nargs="+", default=["out/pytorch_suites.jsonl"], metavar="FILE",
                        help="where each case's outcome is kept (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="run nothing: report what the results files hold")
    parser.add_argument("--again", action="store_true", help="run what did not pass once more")
    parser.add_argument("--add", action="store_true",
                        help="with --markdown: what the table there counts stays, and the results are added to it")
    parser.add_argument("--json", metavar="FILE", help="write every outcome there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there, below its mark")
    options = parser.parse_args()
    if bool(options.paths) == options.report:
        parser.error("name what to run, or --report")
    return options


def all_reports(options):
    return [found for results in options.results for found in report.file_reports(read_results(results))]


def write_table(path, table):
    """What a person wrote above the mark stays."""
    above = path.read_text().split(MARK)[0] if path.exists() else ""
    path.write_text(f"{above}{MARK}\n\n{table}")


def main():
    signal.signal(signal.SIGTERM, lambda *arguments: sys.exit(143))
    options = parse_arguments()
    Path(options.results[0]).resolve().parent.mkdir(parents=True, exist_ok=True)
    choice = Choice(options.match, options.exclude, options.sample, options.at_most, options.timeout,
                    int(options.memory * 2**30), options.fallback, options.rename, options.again, options.ranks,
                    options.offset)
    for test in (file for path in options.paths for file in test_files(path, options.prefix)):
        run_file(test, choice, Path(options.results[0]).resolve())
        for found in all_reports(options):
            if found.label == test.label:
                print(f"{test.label}: {found.count('passed')} of {found.applicable} pass, "
                      f"{found.count('crashed')} crashed, {found.count('hung')} hung, "
                      f"{found.count('other')} not applicable {found.problem}", flush=True)

    reports = all_reports(options)
    earlier = report.Table()
    if options.add and options.markdown:
        earlier = report.read_table(Path(options.markdown).read_text().split(MARK)[1])
    table = report.markdown(reports, "PyTorch's tests on `ocl`", earlier)
    print(table)
    if options.markdown:
        write_table(Path(options.markdown), table)
    if options.json:
        Path(options.json).write_text(json.dumps(report.as_json(reports), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
