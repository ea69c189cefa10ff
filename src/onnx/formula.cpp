#include "onnx/formula.hpp"

#include <cctype>
#include <charconv>

#include <clprim/error.hpp>

namespace clprim::onnx {

namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Formula whole()
    {
        Formula result = term();
        skip_blanks();
        require(at_ == text_.size(), "formula ", text_, ": unexpected end after ", text_.substr(0, at_));
        return result;
    }

private:
    void skip_blanks()
    {
        while (at_ < text_.size() && text_[at_] == ' ')
            ++at_;
    }

    bool take(char c)
    {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != c)
            return false;
        ++at_;
        return true;
    }

    void expect(char c) { require(take(c), "formula ", text_, ": expected ", c, " after ", text_.substr(0, at_)); }

    std::string word()
    {
        skip_blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                      std::string_view("_.-*").find(text_[at_]) != std::string_view::npos))
            ++at_;
        require(at_ > begin, "formula ", text_, ": expected a name after ", text_.substr(0, begin));
        return std::string(text_.substr(begin, at_ - begin));
    }

    Formula term()
    {
        skip_blanks();
        const std::size_t begin = at_;
        Formula result;
        const std::string name = word();
        if (name.size() == 2 && (name[0] == 'x' || name[0] == 'w') &&
            std::isdigit(static_cast<unsigned char>(name[1]))) {
            result.kind = name[0] == 'x' ? Formula::Kind::input : Formula::Kind::value;
            result.index = static_cast<std::size_t>(name[1] - '0');
        } else if (std::isalpha(static_cast<unsigned char>(name[0]))) {
            result.type = name;
            operands(result);
        } else {
            result.kind = Formula::Kind::number;
            const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), result.number);
            require(error == std::errc() && end == name.data() + name.size(), "formula ", text_, ": ", name,
                    " is no number");
        }
        result.text = text_.substr(begin, at_ - begin);
        return result;
    }

    void operands(Formula& node)
    {
        expect('(');
        do
            node.operands.push_back(term());
        while (take(','));
        if (take(';'))
            do {
                const std::string name = word();
                expect('=');
                node.attributes.push_back({name, word()});
            } while (take(','));
        expect(')');
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

Formula parse_formula(std::string_view text, bool integral)
{
    if (const std::size_t bar = text.find('|'); bar != text.npos)
        text = integral ? text.substr(bar + 1) : text.substr(0, bar);
    return Parser(text).whole();
}

}  // namespace clprim::onnx
