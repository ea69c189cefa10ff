// Which of the devices that drivers offer are listed when nobody chose (CLPRIM_DEVICES).
#pragma once

#include <string>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {
namespace detail {

// A device as one driver shows it.
struct OfferedDevice {
    bool cpu = false;        // the host's processor, software renderers of it included
    std::string platform;    // the driver's name
    // Its place on the PCI bus, the same for one physical device under all drivers; empty: not known.
    std::string location;
};

// The positions of those that are listed, in order. A physical device counts once, under the first driver of the list
// that shows it, and the processor counts where there is nothing else.
std::vector<std::size_t> default_devices(const std::vector<OfferedDevice>& offered);

}  // namespace detail
}  // namespace clprim
CLPRIM_API_END
