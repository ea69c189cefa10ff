"""What the ranks of tests/python/test_distributed.py train. Each raises where it is not the same as on one device."""
import datetime
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from distributed_cases import DEVICE, close
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))


def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 8, generator=generator), torch.randn(8, 3, generator=generator)


def loss_of(model, data):
    return ((model(data[0]) - data[1]) ** 2).mean()


def reference_gradients():
    model = network()
    loss_of(model, batch()).backward()
    return [parameter.grad for parameter in model.parameters()]


def my_part(rank, size):
    return [tensor.chunk(size)[rank].to(DEVICE) for tensor in batch()]


def same_gradients(gradients, tolerance=1e-5):
    for got, expected in zip(gradients, reference_gradients(), strict=True):
        close(got.full_tensor() if hasattr(got, "full_tensor") else got, expected, atol=tolerance, rtol=0)


def data_parallel(rank, size):
    for options in ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.002}, {"static_graph": True},
                    {"device_ids": [0]}, {"find_unused_parameters": True}):
        model = DistributedDataParallel(network().to(DEVICE), **options)
        for _ in range(2):
            model.zero_grad()
            loss_of(model, my_part(rank, size)).backward()
        same_gradients([parameter.grad for parameter in model.parameters()])


def overlapped_step(rank, size, folder):
    """A trace of rank 0, whose first bucket cannot be reduced before its backward pass has computed the last gradient:
    only then does rank 1 begin."""
    store = dist.distributed_c10d._get_default_store()
    torch.manual_seed(0)
    layers = nn.Sequential(*[nn.Linear(64, 64) for _ in range(8)]).to(DEVICE)
    model = DistributedDataParallel(layers, bucket_cap_mb=0.04)
    data = torch.randn(16, 64, device=DEVICE)
    for _ in range(2):   # buckets are made anew after the first step
        model(data).sum().backward()
    torch.ocl.synchronize()
    dist.barrier()
    if rank == 1:
        store.wait([folder], datetime.timedelta(seconds=200))
        model(data).sum().backward()
    else:
        def computed(gradient):
            torch.ocl.current_stream().synchronize()
            store.set(folder, "computed")

        layers[0].weight.register_hook(computed)
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
        with torch.profiler.profile(activities=activities) as profile:
            model(data).sum().backward()
            torch.ocl.synchronize()
        profile.export_chrome_trace(f"{folder}/trace.json")
    dist.barrier()


def communication_hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook, tolerance in ((default_hooks.allreduce_hook, 1e-5), (default_hooks.fp16_compress_hook, 1e-3),
                            (default_hooks.bf16_compress_hook, 4e-3)):
        model = DistributedDataParallel(network().to(DEVICE))
        model.register_comm_hook(None, hook)
        loss_of(model, my_part(rank, size)).backward()
        same_gradients([parameter.grad for parameter in model.parameters()], tolerance)
    # Matrices of as many columns as gradients have ranks lose nothing, and those of fewer at least come out alike. Of
    # several buckets the callbacks of each begin collectives, beside those of the next.
    for columns, options in ((8, {}), (1, {}), (8, {"bucket_cap_mb": 0.002}), (1, {"bucket_cap_mb": 0.002})):
        model = DistributedDataParallel(network().to(DEVICE), **options)
        state = powerSGD_hook.PowerSGDState(None, columns, start_powerSGD_iter=2, min_compression_rate=0.01)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        for _ in range(4):
            model.zero_grad()
            loss_of(model, my_part(rank, size)).backward()
        assert state.compression_stats()[2] > 0   # it did compress
        gradients = [parameter.grad for parameter in model.parameters()]
        if columns == 8:
            same_gradients(gradients, 1e-4)
        for gradient in gradients:
            others = gradient.clone()
            dist.broadcast(others, 0)
            assert torch.equal(others, gradient)


def uneven_inputs(rank, size):
    """Rank 1 has a batch more; ranks without one count as gradients of nothing."""
    from torch.distributed.algorithms.join import Join

    model = DistributedDataParallel(network().to(DEVICE))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Join([model]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            loss_of(model, my_part(rank, size)).backward()
            optimizer.step()
    alone = network()
    optimizer = torch.optim.SGD(alone.parameters(), 0.1)
    parts = list(zip(*(tensor.chunk(size) for tensor in batch())))
    for step in range(1 + size):
        optimizer.zero_grad()
        (sum(loss_of(alone, part) for r, part in enumerate(parts) if step < 2 + r) / size).backward()
        optimizer.step()
    for got, expected in zip(model.module.parameters(), alone.parameters(), strict=True):
        close(got.detach(), expected.detach(), atol=1e-5, rtol=0)


def synchronized_batch_norm(rank, size):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    data = torch.randn(4, 3, 8, 8)
    synchronized = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    synchronized.load_state_dict(plain.state_dict())
    synchronized = DistributedDataParallel(synchronized.to(DEVICE))
    weights = torch.randn(4, 4, 6, 6)
    (plain(data) * weights).mean().backward()
    (synchronized(data.chunk(size)[rank].to(DEVICE)) * weights.chunk(size)[rank].to(DEVICE)).mean().backward()
    for got, expected in zip(synchronized.parameters(), plain.parameters()):
        close(got.grad, expected.grad, atol=1e-5, rtol=1e-4)
    close(synchronized.module[1].running_var, plain[1].running_var)
    close(synchronized.module[1].running_mean, plain[1].running_mean)


def sharded_optimizer(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, alone = DistributedDataParallel(network().to(DEVICE)), network()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    reference = torch.optim.Adam(alone.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad(), reference.zero_grad()
        loss_of(model, my_part(rank, size)).backward()
        loss_of(alone, batch()).backward()
        optimizer.step(), reference.step()
    for got, expected in zip(model.parameters(), alone.parameters()):
        close(got.detach(), expected.detach(), atol=1e-5, rtol=1e-4)
    large = torch.rand(1500, 1500, device=DEVICE)   # the states' copies wait behind its products
    for _ in range(3):
        large = large @ large / 1500
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        for got, expected in zip(optimizer.state_dict()["state"].values(), reference.state_dict()["state"].values()):
            assert got["exp_avg"].device.type == "cpu"
            close(got["exp_avg"], expected["exp_avg"], atol=1e-5, rtol=1e-4)
            close(got["exp_avg_sq"], expected["exp_avg_sq"], atol=1e-5, rtol=1e-3)


def fully_sharded(rank, size):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(DEVICE, (size,))
    for options, tolerance in (({}, 1e-5), ({"reshard_after_forward": False}, 1e-5),
                               ({"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}, 1e-2),
                               ({"offload_policy": CPUOffloadPolicy()}, 1e-5)):
        model = network()
        if "offload_policy" not in options:
            model.to(DEVICE)
        for layer in (model[0], model[2], model[4], model):
            fully_shard(layer, mesh=mesh, **options)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model, my_part(rank, size)).backward()
        same_gradients([parameter.grad.to(DEVICE) for parameter in model.parameters()], tolerance)
        optimizer.step()


def fully_sharded_1(rank, size):
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy

    halves = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    for options, tolerance in (({}, 1e-5), ({"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}, 1e-5),
                               ({"mixed_precision": halves}, 1e-2), ({"cpu_offload": CPUOffload(True)}, 1e-5)):
        model = network()
        if "cpu_offload" not in options:
            model.to(DEVICE)
        model = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device(DEVICE, 0), **options)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)   # so that a step is the gradient
        loss_of(model, my_part(rank, size)).backward()
        optimizer.step()
        with FullyShardedDataParallel.summon_full_params(model):
            steps = [before - after.detach().cpu() for before, after in zip(network().parameters(), model.parameters())]
            same_gradients([step.detach() for step in steps], tolerance)


def tensor_parallel(rank, size):
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (size,))
    model = parallelize_module(network().to(DEVICE), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    loss_of(model, [tensor.to(DEVICE) for tensor in batch()]).backward()
    same_gradients([parameter.grad for parameter in model.parameters()])
    torch.manual_seed(0)
    whole = torch.randn(8, 6)
    tensor = distribute_tensor(whole.to(DEVICE), mesh, [Shard(0)])
    close(tensor.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    close((tensor @ tensor.t()).full_tensor(), whole @ whole.t())
    close(tensor.sum().full_tensor(), whole.sum())


def sharded_attention(rank, size):
    """By heads and by the batch, with no mask, with one for all, and with one for each."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(0)
    whole = [torch.randn(2, 4, 5, 8) for _ in range(3)]
    for mask in (None, torch.randn(5, 5), torch.randn(2, 1, 5, 5)):
        theirs = [tensor.clone().requires_grad_() for tensor in whole]
        expected = F.scaled_dot_product_attention(*theirs, attn_mask=mask)
        gradients = torch.autograd.grad(expected.square().sum(), theirs)
        masked = None if mask is None else distribute_tensor(mask.to(DEVICE), mesh, [Replicate()])
        for axis in (0, 1):
            ours = [distribute_tensor(tensor.to(DEVICE), mesh, [Shard(axis)]).requires_grad_() for tensor in whole]
            result = F.scaled_dot_product_attention(*ours, attn_mask=masked)
            assert result.placements == (Shard(axis),)
            close(result.full_tensor(), expected.detach())
            for got, gradient in zip(torch.autograd.grad(result.square().sum(), ours), gradients):
                close(got.full_tensor(), gradient)


def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        model = network()
        part = (model[:2] if rank == 0 else model[2:]).to(DEVICE)
        schedule = schedule_class(PipelineStage(part, rank, size, torch.device(DEVICE, 0)), 4, loss_fn=nn.MSELoss())
        data = [tensor.to(DEVICE) for tensor in batch()]
        schedule.step(data[0]) if rank == 0 else schedule.step(target=data[1], losses=[])
        expected = reference_gradients()
        for got, gradient in zip(part.parameters(), expected[:2] if rank == 0 else expected[2:]):
            close(got.grad, gradient, atol=1e-5, rtol=0)


def checkpoint(rank, size):
    import torch.distributed.checkpoint as checkpoints
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    mesh = init_device_mesh(DEVICE, (size,))
    saved = fully_shard(network().to(DEVICE), mesh=mesh)
    checkpoints.save({"model": get_model_state_dict(saved)}, checkpoint_id=folder[0])
    loaded = fully_shard(nn.Sequential(*[layer for layer in network()]).to(DEVICE), mesh=mesh)
    for parameter in loaded.parameters():
        nn.init.zeros_(parameter)
    state = {"model": get_model_state_dict(loaded)}
    checkpoints.load(state, checkpoint_id=folder[0])
    set_model_state_dict(loaded, state["model"])
    whole = {"model": {name: torch.zeros_like(tensor) for name, tensor in network().to(DEVICE).state_dict().items()}}
    checkpoints.load(whole, checkpoint_id=folder[0])   # in one piece, what was saved in two
    for got, name, expected in zip(loaded.parameters(), whole["model"], network().parameters()):
        close(got.full_tensor().detach(), expected.detach())
        close(whole["model"][name], expected.detach())
    # Cut along other axes, and in one rank's hands as a file of the ordinary kind.
    other = {"model": {name: distribute_tensor(torch.zeros_like(tensor), mesh, [Shard(tensor.dim() - 1)])
                       for name, tensor in whole["model"].items()}}
    checkpoints.load(other, checkpoint_id=folder[0])
    for name, expected in network().state_dict().items():
        close(other["model"][name].full_tensor(), expected)
    if rank == 0:
        dcp_to_torch_save(folder[0], f"{folder[0]}/whole.pt")
        for name, tensor in torch.load(f"{folder[0]}/whole.pt")["model"].items():
            close(tensor, network().state_dict()[name])
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
