"""Collectives of ocl tensors against Gloo's on CPU tensors, the overlap of DistributedDataParallel, and what both say
of more devices. Contenders take turns in every round, and the slowest rank counts.

    python benchmarks/distributed.py                                            # two processes on this machine
    CLPRIM_DISTRIBUTED_STAGING=pinned python benchmarks/distributed.py          # as devices with memory of their own
    torchrun --nnodes 2 ... benchmarks/distributed.py                           # on several machines
"""
import argparse
import json
import os
import socket
import statistics
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def collective(name, device, count):
    size = dist.get_world_size()
    whole = torch.ones(count // size * size, device=device)
    part = torch.ones(count // size, device=device)
    return {"all_reduce": lambda: dist.all_reduce(whole), "broadcast": lambda: dist.broadcast(whole, 0),
            "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
            "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(whole), whole)}[name]


def seconds_of(run, device):
    """The longest that any rank takes, from a common start."""
    torch.ocl.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    run()
    if device == "ocl":
        torch.ocl.synchronize()
    longest = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


def in_turns(contenders, rounds):
    times = {name: [] for name in contenders}
    for number in range(-2, rounds):
        for name, (run, device) in contenders.items():
            seconds = seconds_of(run, device)
            if number >= 0:
                times[name].append(seconds)
    return times


def compare_collectives(options, say):
    rows = []
    say(f"{'':16}{'bytes':>12}{'Gloo ms':>10}{'ocl ms':>10}{'GB/s':>8}{'Gloo / ocl':>12}")
    for name in options.collectives:
        for size in options.sizes:
            contenders = {device: (collective(name, device, size // 4), device) for device in ("cpu", "ocl")}
            times = in_turns(contenders, options.rounds)
            on_cpu, on_device = (statistics.median(times[device]) for device in ("cpu", "ocl"))
            ratio = statistics.median(a / b for a, b in zip(times["cpu"], times["ocl"]))
            rows.append({"collective": name, "bytes": size, "gloo": on_cpu, "ocl": on_device, "ratio": ratio})
            say(f"{name:16}{size:12}{1e3 * on_cpu:10.2f}{1e3 * on_device:10.2f}{size / on_device / 1e9:8.2f}"
                f"{ratio:12.2f}")
    return rows


def overlap(options, say):
    """A step of training: without communication, with it beside the backward pass, and with it afterwards."""
    torch.manual_seed(0)
    layers = [layer for _ in range(options.layers) for layer in (nn.Linear(options.width, options.width), nn.ReLU())]
    model = nn.Sequential(*layers).to("ocl")
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=8, gradient_as_bucket_view=True)
    data = torch.randn(options.batch, options.width, device="ocl")
    flat = torch.zeros(sum(p.numel() for p in model.parameters()), device="ocl")

    def alone():
        with parallel.no_sync():
            parallel(data).square().mean().backward()

    def beside():
        parallel(data).square().mean().backward()

    def afterwards():
        alone()
        dist.all_reduce(flat)

    contenders = {"alone": alone, "beside": beside, "afterwards": afterwards,
                  "all_reduce": lambda: dist.all_reduce(flat)}
    times = in_turns({name: (run, "ocl") for name, run in contenders.items()}, options.rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    hidden = 1 - (medians["beside"] - medians["alone"]) / medians["all_reduce"]
    say(f"\nstep of {options.layers} layers of {options.width}, {flat.numel() * 4 / 2**20:.0f} MiB of gradients: "
        + ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in medians.items())
        + f"; {100 * hidden:.0f} % of the all_reduce lies beside the backward pass")
    return {**medians, "bytes": flat.numel() * 4, "hidden": hidden}


def predict(rows, step, options, say):
    """A ring sends 2 (n - 1) / n times the bytes in 2 (n - 1) messages, each of which the next rank waits for."""
    reduces = sorted((row["bytes"], row["gloo"], row["ocl"]) for row in rows if row["collective"] == "all_reduce")
    (_, small_of_gloo, small), (size, _, seconds) = reduces[0], reduces[-1]
    ranks = dist.get_world_size()
    hop = options.latency * 1e-6 or small_of_gloo / (2 * (ranks - 1))   # Gloo's is a ring
    exchange = options.latency * 1e-6 or small                          # ours is one message to everybody
    bandwidth = options.bandwidth * 1e9 or (2 * (ranks - 1) / ranks * size /
                                            max(seconds - exchange, seconds / 2))
    say(f"\nmodel: {bandwidth / 1e9:.2f} GB/s, {1e6 * hop:.0f} us for each message of a ring, {1e6 * exchange:.0f} us "
        f"for an agreement's round, {1e3 * step['alone']:.0f} ms of computing, {step['bytes'] / 2**20:.0f} MiB of "
        "gradients in buckets of 8 MiB\n")
    backward = 2 / 3 * step["alone"]
    buckets = max(1, round(step["bytes"] / (8 << 20)))
    table = []
    for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        # Up to eight ranks all speak to all at once; of more, each round tells twice as many.
        agreement = (1 if n <= 8 else (n - 1).bit_length()) * exchange
        bucket = 2 * (n - 1) / n * step["bytes"] / buckets / bandwidth + 2 * (n - 1) * hop + agreement
        total = buckets * bucket if n > 1 else 0.0
        # The first bucket is there when its layers are through; the last cannot begin before the pass has ended.
        visible = max(bucket, total - backward * (1 - 1 / buckets)) if n > 1 else 0.0
        duration = step["alone"] + visible
        table.append({"devices": n, "all_reduce": total, "step": duration, "efficiency": step["alone"] / duration})
    for title, cell in (("devices", lambda row: f"{row['devices']:,}"),
                        ("all_reduce, ms", lambda row: f"{1e3 * row['all_reduce']:.0f}"),
                        ("step, ms", lambda row: f"{1e3 * row['step']:.0f}"),
                        ("efficiency", lambda row: f"{100 * row['efficiency']:.0f} %")):
        say(f"| {title} | {' | '.join(map(cell, table))} |")
        if title == "devices":
            say("|---" * (1 + len(table)) + "|")
    return table


def ratios(rows, sizes, say):
    """The same figures as a table for docs/distributed.md."""
    def name(size):
        return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size / 1024:g} KiB"

    say(f"\n| Gloo's time / ocl's time | {' | '.join(map(name, sizes))} |\n" + "|---" * (1 + len(sizes)) + "|")
    for collective in dict.fromkeys(row["collective"] for row in rows):
        say(f"| {collective} | "
            + " | ".join(f"{row['ratio']:.2f}" for row in rows if row["collective"] == collective) + " |")


def run(rank, options):
    warnings.simplefilter("ignore")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.ranks))
    dist.init_process_group()
    say = print if dist.get_rank() == 0 else (lambda text: None)
    properties = torch.ocl.get_device_properties(0)
    say(f"{dist.get_world_size()} processes, {properties.name} [{properties.platform_name}], torch "
        f"{torch.__version__}, memory "
        f"{os.environ.get('CLPRIM_DISTRIBUTED_STAGING', 'lent where the device is the processor')}\n")
    rows = compare_collectives(options, say)
    ratios(rows, options.sizes, say)
    result = {"collectives": rows}
    if not options.no_step:
        result["step"] = overlap(options, say)
        if any(row["collective"] == "all_reduce" for row in rows):
            result["model"] = predict(rows, result["step"], options, say)
    if options.json and dist.get_rank() == 0:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    dist.destroy_process_group()


def spawned(rank, options, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    run(rank, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes to start where torchrun has not")
    parser.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=COLLECTIVES)
    parser.add_argument("--sizes", nargs="+", type=int, help="bytes",
                        default=[1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--no-step", action="store_true", help="the collectives alone")
    parser.add_argument("--bandwidth", type=float, default=0, help="of the model's network, GB/s; 0: as measured")
    parser.add_argument("--latency", type=float, default=0, help="of one message in it, us; 0: as measured")
    parser.add_argument("--json", help="file for the numbers")
    options = parser.parse_args()
    if "RANK" in os.environ:
        return run(int(os.environ["RANK"]), options)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(spawned, (options, port), nprocs=options.ranks)


if __name__ == "__main__":
    main()
