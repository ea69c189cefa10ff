#include "onnx/regex.hpp"

#include <algorithm>

#include "onnx/regex_text.hpp"

namespace clprim::onnx {

namespace {

bool contains(const Regex::Ranges& ranges, std::uint32_t c)
{
    return std::ranges::any_of(ranges, [c](const auto& range) { return range.first <= c && c <= range.second; });
}

// The states in which the simulation is, each once.
struct States {
    std::vector<std::uint32_t> list;
    std::vector<bool> in;
    explicit States(std::size_t size) : in(size) {}
    void clear()
    {
        for (const std::uint32_t state : list)
            in[state] = false;
        list.clear();
    }
};

// Where in the text the simulation is: the characters on both sides, -1 at the ends.
struct Place {
    std::int64_t before, after;
};

bool holds(Regex::Kind kind, const Place& place)
{
    const bool edge = (place.before >= 0 && is_word(static_cast<std::uint32_t>(place.before))) !=
                      (place.after >= 0 && is_word(static_cast<std::uint32_t>(place.after)));
    switch (kind) {
    case Regex::Kind::begin: return place.before < 0;
    case Regex::Kind::end: return place.after < 0;
    case Regex::Kind::line_begin: return place.before < 0 || place.before == '\n';
    case Regex::Kind::line_end: return place.after < 0 || place.after == '\n';
    case Regex::Kind::boundary: return edge;
    default: return !edge;
    }
}

void add(const std::vector<Regex::Instruction>& program, States& states, std::uint32_t first, const Place& place)
{
    std::vector<std::uint32_t> pending{first};
    while (!pending.empty()) {
        const std::uint32_t state = pending.back();
        pending.pop_back();
        if (states.in[state])
            continue;
        states.in[state] = true;
        states.list.push_back(state);
        const Regex::Instruction& i = program[state];
        if (i.kind == Regex::Kind::split)
            pending.push_back(i.other);
        if (i.kind == Regex::Kind::split || i.kind == Regex::Kind::jump ||
            (i.kind != Regex::Kind::characters && i.kind != Regex::Kind::match && holds(i.kind, place)))
            pending.push_back(i.next);
    }
}

}  // namespace

std::size_t Regex::longest_match(std::string_view text, std::size_t from) const
{
    States now(program_.size()), then(program_.size());
    std::size_t at = from, longest = std::string_view::npos;
    std::int64_t before = -1;
    if (from > 0) {
        std::size_t begin = from - 1;
        while (begin > 0 && from - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80)
            --begin;
        before = decode(text, begin);
    }
    const auto following = [&](std::size_t next) {
        return next < text.size() ? static_cast<std::int64_t>(decode(text, next)) : -1;
    };
    const auto matches = [&](std::uint32_t state) { return program_[state].kind == Kind::match; };
    add(program_, now, 0, {before, following(at)});
    for (;;) {
        if (std::ranges::any_of(now.list, matches))
            longest = at - from;
        if (at >= text.size() || now.list.empty())
            return longest;
        const std::uint32_t c = decode(text, at);
        for (const std::uint32_t state : now.list)
            if (program_[state].kind == Kind::characters && contains(sets_[program_[state].other], c))
                add(program_, then, program_[state].next, {c, following(at)});
        std::swap(now, then);
        then.clear();
    }
}

bool Regex::full_match(std::string_view text) const
{
    const std::size_t length = longest_match(text, 0);
    return length != std::string_view::npos && length == text.size();
}

}  // namespace clprim::onnx
