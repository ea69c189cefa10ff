#include <core/ptx_for_sm_90a.hpp>

#include <string>
#include <string_view>

namespace clprim::detail {

std::optional<std::vector<unsigned char>> ptx_for_sm_90a(const std::vector<unsigned char>& binary)
{
    constexpr std::string_view mark = "//sm_90a:", target = ".target sm_90";
    const std::string_view text(reinterpret_cast<const char*>(binary.data()), binary.size());
    std::size_t at = text.find(target);
    if (at == std::string_view::npos || text.find(mark) == std::string_view::npos)
        return std::nullopt;
    at += target.size();
    std::vector<unsigned char> result(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(at));
    if (text.substr(at, 1) != "a")
        result.push_back('a');
    while (at < text.size()) {
        const std::size_t next = std::min(text.find(mark, at), text.size());
        result.insert(result.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                      text.begin() + static_cast<std::ptrdiff_t>(next));
        at = next + mark.size();
    }
    return result;
}

}  // namespace clprim::detail
