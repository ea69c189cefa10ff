#include <core/slim_binary.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include <core/bitstream.hpp>

namespace clprim::detail {
namespace {

using namespace bitstream;
using Bytes = std::vector<unsigned char>;

// Numbers of LLVM's bitcode.
enum Blocks { module_block = 8, function_block = 12, symbols_block = 14, metadata_block = 15, attachment_block = 16 };
enum Codes { module_symbols_offset = 13, declare_blocks = 1, unreachable = 15, attachment = 11, function_entry = 3 };

std::uint32_t word_at(std::span<const unsigned char> data, std::size_t word)
{
    std::uint32_t value = 0;
    if (word * 4 + 4 > data.size())
        throw Damaged();
    std::memcpy(&value, data.data() + word * 4, 4);
    return value;
}

std::vector<std::uint32_t> words_of(std::span<const unsigned char> data, const Block& block)
{
    std::vector<std::uint32_t> words;
    for (std::size_t i = 0; i < block.words; ++i)
        words.push_back(word_at(data, block.begin + i));
    return words;
}

class Slimmer {
public:
    explicit Slimmer(std::span<const unsigned char> data) : data_(data) {}

    std::optional<Bytes> run()
    {
        if (data_.size() % 4 != 0 || data_.size() < 4 || std::memcmp(data_.data(), "BC\xc0\xde", 4) != 0)
            return std::nullopt;
        Reader reader(data_, 32);
        int modules = 0;
        while (reader.left() > 0) {
            if (reader.fixed(outermost_width) != enter_block)
                return std::nullopt;
            const Block block = read_block(reader);
            if (block.id == module_block && ++modules == 1)
                slim_module(block);
        }
        if (modules != 1 || !offset_bit_ || !symbols_)
            return std::nullopt;
        copy_until(data_.size() / 4);
        put_offset();
        Bytes result(out_.size() * 4);
        std::memcpy(result.data(), out_.data(), result.size());
        return result;
    }

private:
    void slim_module(const Block& module)
    {
        Items items(data_, module, shared_);
        for (;;) {
            const auto item = items.next();
            if (std::holds_alternative<End>(item))
                break;
            if (const auto* record = std::get_if<Record>(&item)) {
                if (record->code == module_symbols_offset)
                    offset_bit_ = record->end - 32;
                continue;
            }
            const Block& block = std::get<Block>(item);
            if (block.id == block_info)
                read_block_info(block);
            else if (block.id == function_block)
                replace(block, without_body(block));
            else if (block.id == symbols_block)
                replace(block, moved_symbols(block));
        }
        copy_until(module.begin + module.words);
        out_[module.begin - 1] = static_cast<std::uint32_t>(out_.size() - module.begin);
    }

    void read_block_info(const Block& block)
    {
        Items items(data_, block, shared_);
        while (!std::holds_alternative<End>(items.next()))
            continue;
    }

    // One block that is never reached, the metadata of the function, and what of it belongs to the function itself.
    std::vector<std::uint32_t> without_body(const Block& function)
    {
        if (symbols_)
            throw Damaged();                       // offsets were to be of functions ahead of the symbols
        Writer writer(function.width);
        writer.record(declare_blocks, std::array<std::uint64_t, 1>{1});
        std::vector<Block> attachments;
        Items items(data_, function, shared_);
        for (auto item = items.next(); !std::holds_alternative<End>(item); item = items.next()) {
            const Block* block = std::get_if<Block>(&item);
            if (block && block->id == metadata_block)
                writer.block(block->id, block->width, words_of(data_, *block));
            if (block && block->id == attachment_block)
                attachments.push_back(*block);
        }
        writer.record(unreachable, {});
        for (const Block& block : attachments)
            writer.block(block.id, block.width, of_function(block));
        return writer.end();
    }

    // Pairs of kind and node are the function's; a number ahead of them is an instruction.
    std::vector<std::uint32_t> of_function(const Block& block)
    {
        Writer writer(block.width);
        Items items(data_, block, shared_);
        for (auto item = items.next(); !std::holds_alternative<End>(item); item = items.next())
            if (const auto* record = std::get_if<Record>(&item);
                record && record->code == attachment && record->operands.size() % 2 == 0)
                writer.record(record->code, record->operands);
        return writer.end();
    }

    // The same symbols with the places that functions have now.
    std::vector<std::uint32_t> moved_symbols(const Block& block)
    {
        if (symbols_)
            throw Damaged();
        symbols_ = block;
        Writer writer(block.width);
        Items items(data_, block, shared_);
        for (auto item = items.next(); !std::holds_alternative<End>(item); item = items.next()) {
            auto* record = std::get_if<Record>(&item);
            if (!record)
                throw Damaged();
            if (record->code == function_entry && record->operands.size() > 1)
                record->operands[1] = moved(record->operands[1]);
            writer.record(record->code, record->operands);
        }
        return writer.end();
    }

    void replace(const Block& block, const std::vector<std::uint32_t>& words)
    {
        copy_until(block.begin - 1);
        out_.push_back(static_cast<std::uint32_t>(words.size()));
        out_.insert(out_.end(), words.begin(), words.end());
        copied_ = block.begin + block.words;
        shifts_[copied_] = copied_ - out_.size();
    }

    void copy_until(std::size_t word)
    {
        while (copied_ < word)
            out_.push_back(word_at(data_, copied_++));
    }

    // Where a word outside of what was replaced is now.
    std::uint64_t moved(std::uint64_t word) const
    {
        const auto after = shifts_.upper_bound(word);
        return after == shifts_.begin() ? word : word - std::prev(after)->second;
    }

    void put_offset()
    {
        const std::size_t old = symbols_->begin - 2;                 // its header takes two words
        Reader reader(data_, *offset_bit_);
        const std::uint64_t was = reader.fixed(32);
        if (was != old || moved(old) >= out_.size())
            throw Damaged();
        const std::uint64_t value = moved(old);
        for (unsigned i = 0; i < 32; ++i) {
            const std::size_t bit = *offset_bit_ + i;
            std::uint32_t& word = out_[bit / 32];
            word = (word & ~(1u << bit % 32)) | static_cast<std::uint32_t>(value >> i & 1) << bit % 32;
        }
    }

    std::span<const unsigned char> data_;
    Items::Shared shared_;
    std::vector<std::uint32_t> out_;
    std::size_t copied_ = 0;
    std::map<std::uint64_t, std::uint64_t> shifts_;                  // by the old place from which on they hold
    std::optional<std::size_t> offset_bit_;
    std::optional<Block> symbols_;
};

// The parts of ELF (64 bits, little endian) that these files have.
struct Header {
    unsigned char identification[16];
    std::uint16_t type, machine;
    std::uint32_t version;
    std::uint64_t entry, program_headers, section_headers;
    std::uint32_t flags;
    std::uint16_t header_bytes, program_header_bytes, program_header_count, section_header_bytes, section_count,
        names_section;
};
struct Section {
    std::uint32_t name, type;
    std::uint64_t flags, address, offset, bytes;
    std::uint32_t link, information;
    std::uint64_t alignment, entry_bytes;
};
static_assert(sizeof(Header) == 64 && sizeof(Section) == 64);

template <class T>
T read(std::span<const unsigned char> data, std::size_t offset)
{
    T value;
    if (offset > data.size() || data.size() - offset < sizeof value)
        throw Damaged();
    std::memcpy(&value, data.data() + offset, sizeof value);
    return value;
}

std::span<const unsigned char> content(std::span<const unsigned char> data, const Section& section)
{
    if (section.offset > data.size() || data.size() - section.offset < section.bytes)
        throw Damaged();
    return data.subspan(section.offset, section.bytes);
}

std::string_view name_of(const Section& section, std::span<const unsigned char> names)
{
    const std::string_view all(reinterpret_cast<const char*>(names.data()), names.size());
    return section.name < all.size() ? all.substr(section.name, all.find('\0', section.name) - section.name) : "";
}

std::optional<Bytes> slim(std::span<const unsigned char> binary)
{
    if (binary.size() < sizeof(Header) || std::memcmp(binary.data(), "\x7f" "ELF\x02\x01", 6) != 0)
        return std::nullopt;
    auto header = read<Header>(binary, 0);
    if (header.section_header_bytes != sizeof(Section) || header.names_section >= header.section_count)
        return std::nullopt;
    std::vector<Section> sections;
    for (std::size_t i = 0; i < header.section_count; ++i)
        sections.push_back(read<Section>(binary, header.section_headers + i * sizeof(Section)));
    const auto names = content(binary, sections[header.names_section]);
    const auto find = [&](std::string_view name) {
        return std::ranges::find_if(sections, [&](const Section& section) { return name_of(section, names) == name; });
    };
    const auto code = find(".ocl.obj"), bitcode = find(".ocl.ir");
    if (code == sections.end() || code->bytes == 0 || bitcode == sections.end())
        return std::nullopt;
    const auto old = content(binary, *bitcode);
    const auto fresh = Slimmer(old).run();
    if (!fresh || fresh->size() >= old.size())
        return std::nullopt;
    const std::size_t less = old.size() - fresh->size(), end = bitcode->offset + bitcode->bytes;
    Bytes result(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(bitcode->offset));
    result.insert(result.end(), fresh->begin(), fresh->end());
    result.insert(result.end(), binary.begin() + static_cast<std::ptrdiff_t>(end), binary.end());
    bitcode->bytes = fresh->size();
    for (Section& section : sections)
        if (section.offset >= end)
            section.offset -= less;
    if (header.section_headers >= end)
        header.section_headers -= less;
    if (header.section_headers + sections.size() * sizeof(Section) > result.size())
        return std::nullopt;
    std::memcpy(result.data(), &header, sizeof header);
    std::memcpy(result.data() + header.section_headers, sections.data(), sections.size() * sizeof(Section));
    return result;
}

}  // namespace

std::optional<std::vector<unsigned char>> slim_binary(std::span<const unsigned char> binary)
try {
    return slim(binary);
} catch (const Damaged&) {
    return std::nullopt;
}

}  // namespace clprim::detail
