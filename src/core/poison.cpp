#include <core/poison.hpp>

#include <clprim/context.hpp>
#include <core/dry_run.hpp>
#include <core/environment.hpp>
#include <core/loaded_program.hpp>
#include <core/queue_handle.hpp>

namespace clprim::detail {
namespace {

constexpr const char* source = "__kernel void poison(__local uint* x, uint n)\n"
                               "{\n"
                               "    for (uint i = get_local_id(0); i < n; i += get_local_size(0))\n"
                               "        ((volatile __local uint*)x)[i] = 0xffffffff;\n"
                               "}\n";

}  // namespace

bool poisons_local_memory()
{
    static const bool value = environment("CLPRIM_POISON") == "1";
    return value;
}

bool poisons_blocks()
{
    static const bool value = poisons_local_memory() || environment("CLPRIM_POISON") == "blocks" || dry_run();
    return value;
}

void poison(Queue& queue, Block& block)
{
    // NaN in every floating-point type. A dry run, whose kernels write nothing, reads zeros: no errors, no lengths.
    const cl_uchar bits = dry_run() ? 0 : 0xff;
    queue.fill(block, 0, block.size, &bits, sizeof bits);
}

void poison_local_memory(Queue& queue, const Kernel& next)
{
    const Device& device = queue.device();
    cl_ulong used = 0;
    check_opencl(clGetKernelWorkGroupInfo(next.handle(), device.handle(), CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used,
                                          nullptr),
                 "clGetKernelWorkGroupInfo", next.name);
    if (used == 0)
        return;
    Kernel& kernel = queue.context().program_from_text("poison", source).kernel("poison");
    std::lock_guard lock(kernel.mutex);
    if (!kernel.handle())
        restore_kernel(kernel);
    const std::size_t bytes = device.local_memory;
    const auto count = static_cast<cl_uint>(bytes / sizeof(cl_uint));
    // A few work-groups for each compute unit, so that none is left out. Not a Launch, which would come here again and
    // be counted.
    const std::size_t local =
        device.kind == DeviceKind::cpu ? 1 : std::min<std::size_t>(64, kernel.max_work_group_size);
    const std::size_t global = std::size_t{4} * device.compute_units * local;
    check_opencl(clSetKernelArg(kernel.handle(), 0, bytes, nullptr), "clSetKernelArg", "poison");
    check_opencl(clSetKernelArg(kernel.handle(), 1, sizeof count, &count), "clSetKernelArg", "poison");
    check_opencl(clEnqueueNDRangeKernel(detail::QueueAccess::handle(queue), kernel.handle(), 1, nullptr, &global,
                                        &local, 0, nullptr, nullptr),
                 "clEnqueueNDRangeKernel", "poison");
}

}  // namespace clprim::detail
