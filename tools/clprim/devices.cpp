// clprim devices
#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

namespace {

Json described(const Device& d)
{
    return {{"id", d.id},
            {"name", d.name},
            {"platform", d.platform_name},
            {"driver", d.driver_version},
            {"kind", d.kind == DeviceKind::cpu ? "cpu" : "gpu"},
            {"opencl", d.version / 100.0},
            {"compute_units", d.compute_units},
            {"global_memory", d.global_memory},
            {"max_allocation", d.max_allocation},
            {"local_memory", d.local_memory},
            {"fp64", d.fp64},
            {"fp16", d.fp16},
            {"sub_groups", d.sub_groups}};
}

}  // namespace

void list_devices(bool json)
{
    Json all = Json::array();
    for (const Device& device : devices())
        all.push_back(described(device));
    if (json)
        return print(all);
    require<NotSupported>(!all.empty(), no_device_help());
    for (const Device& d : devices())
        std::printf("%-5s %s\n      %s, %s, OpenCL %d.%d, %u compute units, %.1f GiB memory, fp64 %s, fp16 %s\n",
                    d.id.c_str(), d.name.c_str(), d.platform_name.c_str(), d.kind == DeviceKind::cpu ? "cpu" : "gpu",
                    d.version / 100, d.version / 10 % 10, d.compute_units,
                    static_cast<double>(d.global_memory) / (1 << 30), d.fp64 ? "yes" : "no", d.fp16 ? "yes" : "no");
}

}  // namespace clprim::command
