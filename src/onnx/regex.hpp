// Regular expressions in the syntax of RE2 (github.com/google/re2/wiki/Syntax), matched in time proportional to
// pattern times text by simulating all states at once (Thompson, "Regular expression search algorithm", 1968). No
// pattern or text can make it slow, and nothing recurses over the text.
//
// Left out: Unicode properties (\p) and letters beyond ASCII in case-insensitive matches.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace clprim::onnx {

class Regex {
public:
    explicit Regex(std::string_view pattern);        // throws InvalidArgument that says what is wrong and where
    bool full_match(std::string_view text) const; // text is UTF-8; bytes that are not count as characters of their own
    // How many bytes the longest match takes that begins at `from`; npos where there is none.
    std::size_t longest_match(std::string_view text, std::size_t from) const;

    using Ranges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;   // of code points, both ends included
    enum class Kind : std::uint8_t {
        characters,
        split,
        jump,
        begin,
        end,
        line_begin,
        line_end,
        boundary,
        no_boundary,
        match
    };
    struct Instruction {
        Kind kind;
        std::uint32_t next = 0, other = 0;           // `other`: second branch of a split, or index of the ranges
    };

private:
    friend class RegexCompiler;
    std::vector<Instruction> program_;
    std::vector<Ranges> sets_;
};

}  // namespace clprim::onnx
