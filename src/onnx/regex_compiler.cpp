#include "onnx/regex.hpp"

#include <algorithm>
#include <string>

#include <clprim/error.hpp>

#include "onnx/regex_text.hpp"

namespace clprim::onnx {

namespace {

constexpr std::uint32_t last_character = 0x10ffff;

Regex::Ranges complement(Regex::Ranges ranges)
{
    std::ranges::sort(ranges);
    Regex::Ranges result;
    std::uint32_t next = 0;
    for (const auto& [low, high] : ranges) {
        if (low > next)
            result.emplace_back(next, low - 1);
        next = std::max(next, high + 1);
    }
    if (next <= last_character)
        result.emplace_back(next, last_character);
    return result;
}

const Regex::Ranges digits{{'0', '9'}}, words{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
    spaces{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

struct NamedClass {
    std::string_view name;
    Regex::Ranges ranges;
};
const NamedClass named_classes[] = {
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{0, 0x7f}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}},
    {"digit", digits},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", words},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

}  // namespace

// A recursive-descent parser that emits instructions. A fragment is a stretch of the program that is entered at its
// first instruction and left by falling off its end, so that repetition can copy it.
class RegexCompiler {
public:
    RegexCompiler(std::string_view pattern, Regex& regex) : pattern_(pattern), regex_(regex) {}

    void compile()
    {
        Fragment whole = alternatives(0);
        require(done(), "pattern: ')' without '(' at ", at_);
        whole.push_back({Regex::Kind::match});
        regex_.program_ = std::move(whole);
    }

private:
    using Kind = Regex::Kind;
    using Fragment = std::vector<Regex::Instruction>;   // targets are relative to the fragment
    static constexpr std::size_t most_instructions = 100'000, deepest = 1000;
    static constexpr int most_repeats = 1000;

    struct Flags {
        bool ignore_case = false, multi_line = false, dot_all = false;
    };

    bool done() const { return at_ >= pattern_.size(); }
    char peek() const { return done() ? '\0' : pattern_[at_]; }
    bool take(std::string_view text)
    {
        if (!pattern_.substr(at_).starts_with(text))
            return false;
        at_ += text.size();
        return true;
    }

    static void append(Fragment& target, const Fragment& source)
    {
        const auto shift = static_cast<std::uint32_t>(target.size());
        require(target.size() + source.size() <= most_instructions, "pattern: it is too large");
        for (Regex::Instruction i : source) {
            i.next += shift;
            if (i.kind == Kind::split)
                i.other += shift;
            target.push_back(i);
        }
    }

    static Fragment single(Kind kind) { return {{kind, 1, 0}}; }

    Fragment characters(Regex::Ranges ranges)
    {
        if (flags_.ignore_case) {
            const Regex::Ranges given = ranges;
            for (const auto& [low, high] : given)
                for (const auto& [from, to] : {std::pair<int, int>{'A', 'a'}, {'a', 'A'}}) {
                    const int first = std::max<int>(from, static_cast<int>(low)),
                              last = std::min<int>(from + 25, static_cast<int>(high));
                    if (first <= last)
                        ranges.emplace_back(first - from + to, last - from + to);
                }
        }
        regex_.sets_.push_back(std::move(ranges));
        return {{Kind::characters, 1, static_cast<std::uint32_t>(regex_.sets_.size() - 1)}};
    }

    Fragment alternatives(std::size_t depth)
    {
        require(depth < deepest, "pattern: groups are nested too deeply");
        const Flags outer = flags_;
        Fragment result = sequence(depth);
        while (take("|")) {
            const Fragment right = sequence(depth);
            Fragment both{{Kind::split, 1, static_cast<std::uint32_t>(result.size() + 2)}};
            append(both, result);
            both.push_back({Kind::jump, static_cast<std::uint32_t>(both.size() + 1 + right.size())});
            append(both, right);
            result = std::move(both);
        }
        flags_ = outer;
        return result;
    }

    Fragment sequence(std::size_t depth)
    {
        Fragment result;
        while (!done() && peek() != '|' && peek() != ')')
            append(result, repeated(atom(depth)));
        return result;
    }

    Fragment repeated(Fragment item)
    {
        while (!done()) {
            int least = 0, most = -1;
            if (take("*"))
                least = 0;
            else if (take("+"))
                least = 1;
            else if (take("?"))
                most = 1;
            else if (!counts(least, most))
                break;
            take("?");                               // lazy or not, what matches as a whole is the same
            item = repeat(item, least, most);
        }
        return item;
    }

    // {n}, {n,}, {n,m}; anything else is literal text.
    bool counts(int& least, int& most)
    {
        const std::size_t begin = at_;
        const auto number = [&] {
            int value = -1;
            while (peek() >= '0' && peek() <= '9') {
                value = std::max(value, 0) * 10 + (pattern_[at_++] - '0');
                require(value <= most_repeats, "pattern: more than ", most_repeats, " repetitions at ", begin);
            }
            return value;
        };
        if (!take("{"))
            return false;
        least = most = number();
        if (least >= 0 && take(","))
            most = number();
        if (least < 0 || !take("}")) {
            at_ = begin;
            return false;
        }
        require(most < 0 || most >= least, "pattern: a repetition from ", least, " to ", most, " at ", begin);
        return true;
    }

    static Fragment repeat(const Fragment& item, int least, int most)
    {
        Fragment result;
        for (int i = 0; i < least; ++i)
            append(result, item);
        const auto size = static_cast<std::uint32_t>(item.size());
        if (most < 0) {
            append(result, {{Kind::split, 1, size + 2}});
            append(result, item);
            result.push_back({Kind::jump, static_cast<std::uint32_t>(result.size() - size - 1)});
            return result;
        }
        for (int i = least; i < most; ++i) {
            append(result, {{Kind::split, 1, size + 1}});
            append(result, item);
        }
        return result;
    }

    Fragment atom(std::size_t depth)
    {
        const std::size_t begin = at_;
        if (take("("))
            return group(depth, begin);
        if (take("["))
            return characters(bracket());
        if (take("."))
            return characters(flags_.dot_all ? Regex::Ranges{{0, last_character}} : complement({{'\n', '\n'}}));
        if (take("^"))
            return single(flags_.multi_line ? Kind::line_begin : Kind::begin);
        if (take("$"))
            return single(flags_.multi_line ? Kind::line_end : Kind::end);
        require(peek() != '*' && peek() != '+' && peek() != '?', "pattern: nothing to repeat at ", at_);
        if (take("\\Q")) {
            Fragment text;
            while (!done() && !take("\\E"))
                append(text, literal());
            return text;
        }
        if (peek() != '\\')
            return literal();
        for (const auto& [escape, kind] :
             {std::pair{"\\A", Kind::begin}, {"\\z", Kind::end}, {"\\b", Kind::boundary}, {"\\B", Kind::no_boundary}})
            if (take(escape))
                return single(kind);
        Regex::Ranges ranges;
        escaped(ranges);
        return characters(std::move(ranges));
    }

    Fragment literal()
    {
        const std::uint32_t c = decode(pattern_, at_);
        return characters({{c, c}});
    }

    // (...), (?:...), (?P<name>...), (?flags), (?flags:...)
    Fragment group(std::size_t depth, std::size_t begin)
    {
        const Flags outer = flags_;
        if (take("?")) {
            if (take("P<") || take("<")) {
                while (!done() && peek() != '>')
                    ++at_;
                require(take(">"), "pattern: a group's name does not end at ", begin);
            } else {
                bool on = true;
                for (; !done() && peek() != ':' && peek() != ')'; ++at_)
                    switch (peek()) {
                    case '-': on = false; break;
                    case 'i': flags_.ignore_case = on; break;
                    case 'm': flags_.multi_line = on; break;
                    case 's': flags_.dot_all = on; break;
                    case 'U': break;
                    default: throw InvalidArgument(detail::concat("pattern: unknown group at ", begin));
                    }
                if (take(")"))
                    return {};                       // flags for the rest of the enclosing group
                require(take(":"), "pattern: unknown group at ", begin);
            }
        }
        Fragment inner = alternatives(depth + 1);
        require(take(")"), "pattern: '(' at ", begin, " is not closed");
        flags_ = outer;
        return inner;
    }

    std::uint32_t hexadecimal()
    {
        const bool braces = take("{");
        std::uint32_t value = 0;
        std::size_t digits_read = 0;
        for (; !done() && digits_read < (braces ? 6u : 2u); ++at_, ++digits_read) {
            const char c = peek();
            const int digit = c >= '0' && c <= '9'                 ? c - '0'
                              : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                   : -1;
            if (digit < 0)
                break;
            value = value * 16 + static_cast<std::uint32_t>(digit);
        }
        require(digits_read && value <= last_character && (!braces || take("}")), "pattern: bad \\x at ", at_);
        return value;
    }

    // What stands behind a backslash, as ranges; true if it is one character.
    bool escaped(Regex::Ranges& ranges)
    {
        const std::size_t begin = at_++;
        require(!done(), "pattern: it ends in a backslash");
        const char c = pattern_[at_++];
        const auto all = [&](const Regex::Ranges& set) {
            ranges.insert(ranges.end(), set.begin(), set.end());
            return false;
        };
        const auto one = [&](std::uint32_t value) {
            ranges.emplace_back(value, value);
            return true;
        };
        switch (c) {
        case 'd': return all(digits);
        case 'D': return all(complement(digits));
        case 'w': return all(words);
        case 'W': return all(complement(words));
        case 's': return all(spaces);
        case 'S': return all(complement(spaces));
        case 'a': return one('\a');
        case 'f': return one('\f');
        case 'n': return one('\n');
        case 'r': return one('\r');
        case 't': return one('\t');
        case 'v': return one('\v');
        case 'x': return one(hexadecimal());
        case '0': return one(0);
        default: break;
        }
        require(static_cast<unsigned char>(c) < 0x80 && !is_word(static_cast<unsigned char>(c)), "pattern: \\",
                std::string(1, c), " at ", begin, " is not supported");
        return one(static_cast<std::uint32_t>(c));
    }

    Regex::Ranges bracket()
    {
        const std::size_t begin = at_ - 1;
        Regex::Ranges ranges;
        const bool negated = take("^");
        for (bool first = true; first || peek() != ']'; first = false) {
            require(!done(), "pattern: '[' at ", begin, " is not closed");
            if (take("[:")) {
                const bool inverse = take("^");
                const auto named = std::ranges::find_if(
                    named_classes, [&](const NamedClass& c) { return take(std::string(c.name) + ":]"); });
                require(named != std::end(named_classes), "pattern: unknown class at ", at_);
                const Regex::Ranges set = inverse ? complement(named->ranges) : named->ranges;
                ranges.insert(ranges.end(), set.begin(), set.end());
                continue;
            }
            if (!bracket_character(ranges))
                continue;
            if (peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
                const std::uint32_t low = ranges.back().first;
                const std::size_t place = at_++;
                require(bracket_character(ranges) && ranges.back().first >= low, "pattern: bad range at ", place);
                ranges.back().first = low;
            }
        }
        take("]");
        return negated ? complement(with_other_case(std::move(ranges))) : ranges;
    }

    // A negated set excludes both cases of what it names.
    Regex::Ranges with_other_case(Regex::Ranges ranges)
    {
        if (!flags_.ignore_case)
            return ranges;
        characters(std::move(ranges));
        Regex::Ranges both = std::move(regex_.sets_.back());
        regex_.sets_.pop_back();
        return both;
    }

    bool bracket_character(Regex::Ranges& ranges)
    {
        if (peek() == '\\')
            return escaped(ranges);
        const std::uint32_t c = decode(pattern_, at_);
        ranges.emplace_back(c, c);
        return true;
    }

    std::string_view pattern_;
    Regex& regex_;
    std::size_t at_ = 0;
    Flags flags_;
};

Regex::Regex(std::string_view pattern) { RegexCompiler(pattern, *this).compile(); }

}  // namespace clprim::onnx
