#include <core/device_part.hpp>

#include <fmt/format.h>

#include <clprim/error.hpp>

namespace clprim::detail {

Device part_of(const Device& device, unsigned units, int index)
{
    const cl_device_partition_property counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, units,
                                                   CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id handle = nullptr;
    cl_uint count = 0;
    const cl_int code = clCreateSubDevices(device.handle(), counts, 1, &handle, &count);
    require<NotSupported>(code == CL_SUCCESS && count == 1, device.name, ": the driver does not give a part of it of ",
                          units, " compute units (clCreateSubDevices: ", code, ")");
    Device part = device;
    part.handle = cl::Device(handle);
    part.index = index;
    part.id += fmt::format("/{} units", units);
    part.compute_units = units;
    return part;
}

}  // namespace clprim::detail
