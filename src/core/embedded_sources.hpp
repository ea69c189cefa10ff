// Table of the kernel files built into the library; the build writes it (cmake/EmbedSources.cmake).
#pragma once

namespace clprim::detail {

struct EmbeddedSource {
    const char* path;   // below src, e.g. "core/dtype.cl"; null ends the table
    const char* text;
};
extern const EmbeddedSource embedded_sources[];

}  // namespace clprim::detail
