#include <core/device_choice.hpp>

#include <algorithm>

namespace clprim::detail {

std::vector<std::size_t> default_devices(const std::vector<OfferedDevice>& offered)
{
    const bool cpu_only = std::ranges::all_of(offered, &OfferedDevice::cpu);
    std::vector<std::size_t> listed;
    for (std::size_t i = 0; i < offered.size(); ++i) {
        const OfferedDevice& device = offered[i];
        if (device.cpu && !cpu_only)
            continue;
        // Two devices of one driver are two, whatever they say about themselves.
        const bool known = std::ranges::any_of(listed, [&](std::size_t other) {
            const OfferedDevice& first = offered[other];
            return first.platform != device.platform &&
                   (device.cpu || (!device.location.empty() && first.location == device.location));
        });
        if (!known)
            listed.push_back(i);
    }
    return listed;
}

}  // namespace clprim::detail
