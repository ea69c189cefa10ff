"""Why cases miss: the first row whose pattern is found in `file case kind reason` explains a miss."""

from __future__ import annotations

import re

EXPLANATIONS = [
    (r"masked_scatter.*not raised|out_of_bounds.*not raised|test_advancedindex.*IndexError not raised|"
     r"after the case: IndexError",
     "what a kernel finds (an index out of range, too few elements) is raised at the next synchronisation, as on CUDA; "
     "the case expects it at once of every device but CUDA"),
    (r"test_nondeterministic_alert.*not raised", "the device computes it in the same order every run, as the CPU does"),
    (r"test_to_complex|test_instancenorm_raises|FutureWarning not triggered",
     "a warning that PyTorch gives once in a process, and the case counts"),
    (r"has no attribute 'is_xpu'", "the case asks a storage whether it is on an XPU"),
    (r"test_basic_chrome_trace", "the case finds a trace's first events by their number from its end"),
    (r"test_cudnn_rnn.*bfloat16",
     "one of 400 numbers of bfloat16 is 5.4e-3 from the CPU's, which rounds elsewhere, for 5e-3"),
    (r"test_scatter_reduce_multiply_unsupported", "products of complex numbers, which other devices refuse"),
    (r"test_sampled_addmm_errors|test__local_scalar_dense_with_empty", "other words of an error"),
    (r"active drivers", "the case runs kernels of Triton, which has no driver for the device"),
    (r"test_streams.*torch\.ocl stream entered",
     "entering a stream breaks Inductor's graphs (docs/compile.md), and the case wants a whole one"),
    (r"test_streams.*test_stream_backward_sync.*not close",
     "new streams read what the current one has not written yet: the case does not make them wait"),
    (r"test_stable_sort_against_numpy.*same device", "the case indexes with tensors of the CPU, except on CUDA"),
    (r"test_unique_dim.* nan at index",
     "NaN in `unique(dim)`: the CPU leaves it where its sorting ends, the device puts it first"),
    (r"test_upsamplingBiMode2d_nonsupported_dtypes.*uint8",
     "the device resamples images of uint8, as the CPU does; the case expects other devices to refuse them"),
    (r"test_record_stream_on_shifted_view.*not raised",
     "the case expects one stream to be busy still after another was waited for: with the CPU driver the wait for an "
     "idle stream lasted until the other had finished"),
    (r"test_loops.*(allocate memory|RuntimeError: Comparing)",
     "119 million elements compared, in more than the 8 GiB that a process has"),
    (r"map2?_ is only implemented on CPU",
     "`map_` calls Python for each element: PyTorch has it for the CPU alone"),
    (r"_test_autograd_multiple_dispatch",
     "an operator that exists for PyTorch's own tests, in its form for nested tensors"),
    (r"test_grad_scaling_state_dict", "the case expects the CPU's legacy class of tensors of every device but CUDA"),
    (r"storage_type", "legacy classes of storages (`torch.cuda.FloatStorage`): there are none"),
    (r"test_fft_r2c_bf16", "PyTorch itself refuses Fourier transforms of bfloat16, except on CUDA and XPU"),
    (r"test_empty_nonzero", "strides of a result without elements: the CPU's are (1, 0), XPU's (1, 1)"),
    (r"has no attribute 'size_hints'",
     "the case calls what the installed PyTorch no longer has, and for the GPU alone"),
    (r"test_dropout2|test_neg_index|test_randint_kernel_count|test_reduction_config_limit|index_propagation_floordiv",
     "the case looks for the text of Triton's kernels"),
    (r"test_like_rands", "random numbers of float16 have eleven bits: they are not those of float32, rounded"),
    (r"lerp_DEVICE_float16",
     "gradients in float16, which are not compared on the CPU: eager code rounds after each operator"),
    (r"test_conv_backend",
     "the case asks which of PyTorch's own libraries computes a convolution: here it is the device's"),
    (r"quantize|qint|quantized", "no quantized tensors"),
    (r"code generator for the ocl device|backend='inductor' raised", "`torch.compile` with the backend `inductor`"),
    (r"has no kernel for the ocl device",
     "an operator that has no kernel: runs on the CPU where the fallback policy allows it"),
    (r"test_dtypes_.*supported dtypes for",
     "the device computes dtypes that OpInfo does not list for the CPU: special functions of float16 and bfloat16, "
     "complex32"),
    (r"test_fake_crossref.*fused_attention_overrideable.*Devices cpu",
     "the seeds of attention's dropout lie on the CPU, so that backward does not wait for them; PyTorch's shapes for "
     "compilation place them on the device"),
    (r"test_eigvals_compare_backends", "eigenvalues in float32 with and without vectors differ in the last digits"),
    (r"its peer is rank \d+, expected another one",
     "a message of a rank to itself, which NCCL takes in a batch and Gloo does not"),
    (r"TestFullyShardOverlap",
     "the case compares times of delays that overlap on CUDA's streams; here they delay the host, and add up"),
    (r"test_norm_modules_(bf16|fp16)",
     "batch normalisation of halves with statistics in float32 computes, as on HPUs; the case expects its refusal"),
    (r"test_monitored_barrier_allreduce_hang",
     "one rank never joins a collective, and NCCL's `wait()` returns at once; here it "
     "waits for the network"),
    (r"(ProcessGroup|Comm)\w*(Test)?::.*(checks|multi_device|_coalesced_gloo)", "the words of Gloo's own refusals"),
    (r"TestShardGradScaler::test_grad_scaling", "`ShardedGradScaler()` is for CUDA unless it is told the device"),
    (r"test_dropout_errors",
     "dropout of partial sums is refused as the several operators that it is on the CPU; on accelerators it is one, "
     "which makes them whole"),
    (r"test_homogeneous_attributes",
     "ranks that are threads of one process call different collectives; the case changes the process's environment in "
     "each of them"),
    (r"test_allgather_basics_DEVICE|test_allgather_basics_cuda",
     "the value of the operation's future is one tensor with the parts of all ranks, as NCCL's"),
    (r"must be one tensor, not \d",
     "several tensors in one call, which Gloo alone takes (one process with several devices)"),
    (r"compare_cpu_cuda_grads.* hung ",
     "880,000 points of a deformable convolution on the CPU and on the device, more than the minute that a case has"),
    (r"test_group_norm_eager_vs_compile",
     "statistics of normalisation of float16 are float32, as on CUDA; PyTorch's decomposition rounds them"),
    (r"test_upsample_bilinear_bwd ", "coordinates are float32, as on the CPU; the case compares with float64"),
    (r"test_softmax_half_to_float", "132 million elements compared, in more than the 8 GiB that a process has"),
    (r"test_triangular_solve_sparse.*has no kernel", "no triangular solver for sparse compressed matrices"),
    (r"test_convert_weight_to_int4pack", "packed weights of four bits have CUDA's layout, not XPU's"),
    (r"test_(loops|record_stream)\w* hung ",
     "119 million elements compared on the CPU, or 30 sums of 268 million: more than the minute that a case has"),
    (r"test_distribution_uniform .*5\.0\d* but got",
     "the mean of 10,000 random numbers, which misses the case's limit once in 25 times with any generator"),
    (r"xpu-ops/test_deform_conv.* hung ", "compiles and compares deformable convolutions in more than a minute"),
    (r"terminated or timed out after", "longer than the limit of a case on two loaded cores"),
    (r" hung .*(gradcheck|_check_supported|rosenbrock)|gradient.* hung |grad_.* hung ",
     "thousands of small operators: more than the minute that a case has"),
]

# Cases of torch.distributed that were written for another version of PyTorch: its own functions have changed since.
OTHER_VERSION = re.compile(
    r"'(_MeshEnv|DeviceMesh)' object has no attribute|foreach_(all_gather|reduce)\(\) (missing|got an unexpected)|"
    r"already managed by another FSDP group|test_dtensor_log .*'_dispatch.py' not found|"
    r"test_compute_dtype .*too many values to unpack|test_assert_invalid_mesh_tensor .*not raised|"
    r"TestFullyShardPrefetch::.* The length of the sequences mismatch|"
    r"TestGradCollectives::test_all_reduce .*is not None|"
    r"test_all_to_all_single_inductor .*not find .*all_to_all_single|"     # its code asserts alignment by that name
    r"'NoneType' object has no attribute '(get_seed|_calc_shard_linear_idx)'|"   # random numbers' tracker: made later
    r"test_implicit_replication_for_foreach_ops .*not raised|test_split_tensor_1D |"
    r"test_load_error_handling .*Type comparison")


def explain(label, outcome):
    text = f"{label} {outcome.case} {outcome.kind} {outcome.reason}"
    return next((why for pattern, why in EXPLANATIONS if re.search(pattern, text)), None)
