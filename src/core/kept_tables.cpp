#include <core/kept_tables.hpp>

#include <map>
#include <mutex>
#include <utility>

#include <clprim/interop.hpp>

namespace clprim::detail {

namespace {

struct Kept {
    std::mutex mutex;
    std::map<std::pair<const Context*, std::string>, Tensor> tables;
    std::size_t bytes = 0;
};

Kept& kept()
{
    static auto* all = new Kept;   // never destroyed: queues may outlive it
    return *all;
}

}  // namespace

Tensor KeptTables::find(const Context& context, const std::string& name)
{
    std::lock_guard lock(kept().mutex);
    const auto found = kept().tables.find({&context, name});
    return found == kept().tables.end() ? Tensor() : found->second;
}

bool KeptTables::has_room(std::size_t bytes)
{
    constexpr std::size_t most = std::size_t{64} << 20;
    std::lock_guard lock(kept().mutex);
    return kept().bytes + bytes <= most;
}

Tensor KeptTables::keep(Context& context, const std::string& name, DataType dtype, const void* data, std::int64_t count)
{
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    cl_int code = CL_SUCCESS;
    const cl_mem buffer = clCreateBuffer(context.handle()(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                         const_cast<void*>(data), &code);
    check_opencl(code, "clCreateBuffer");
    const cl::Buffer owner(buffer);
    const Tensor table = adopt(context, buffer, dtype, {count});
    std::lock_guard lock(kept().mutex);
    if (kept().tables.insert_or_assign({&context, name}, table).second)
        kept().bytes += bytes;
    return table;
}

}  // namespace clprim::detail
