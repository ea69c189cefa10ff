// Building programs takes seconds at the first use of a device: after two of them one line on stderr says what is going
// on.
#pragma once

#include <string>

namespace clprim::detail {

// Lives while a program is built. CLPRIM_PROGRESS=0 keeps it silent.
class BuildNotice {
public:
    BuildNotice(const std::string& device, bool kept_by_driver);
    ~BuildNotice();
    BuildNotice(const BuildNotice&) = delete;
    BuildNotice& operator=(const BuildNotice&) = delete;
};

}  // namespace clprim::detail
