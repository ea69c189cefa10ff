# Writes a C++ file with the text of every kernel file. Called with ROOT, FILES (relative to ROOT) and OUTPUT.
set(body "")
foreach(file IN LISTS FILES)
    file(READ ${ROOT}/${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(MAKE_C_IDENTIFIER "${file}" symbol)
    string(APPEND body "static const unsigned char ${symbol}[] = {${bytes}0};\n")
    string(APPEND table "    {\"${file}\", reinterpret_cast<const char*>(${symbol})},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by EmbedSources.cmake.
#include <core/embedded_sources.hpp>

${body}
namespace clprim::detail {
const EmbeddedSource embedded_sources[] = {
${table}    {nullptr, nullptr},
};
}  // namespace clprim::detail
")
