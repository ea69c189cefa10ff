#include <core/bitstream.hpp>

#include <algorithm>

namespace clprim::detail::bitstream {

Items::Items(std::span<const unsigned char> data, const Block& block, Shared& shared)
    : reader_(data.first(std::min(data.size(), (block.begin + block.words) * 4)), block.begin * 32), block_(block),
      shared_(shared)
{
    if (const auto found = shared.find(block.id); found != shared.end())
        abbreviations_ = found->second;
}

Block read_block(Reader& reader)
{
    Block block;
    block.id = reader.variable(8);
    block.width = static_cast<unsigned>(reader.variable(4));
    reader.align();
    block.words = reader.fixed(32);
    block.begin = reader.word();
    if (block.width < 2 || block.width > 32)
        throw Damaged();
    reader.go_to((block.begin + block.words) * 32);
    return block;
}

std::variant<Block, Record, End> Items::next()
{
    for (;;) {
        const std::uint64_t id = reader_.fixed(block_.width);
        if (id == end_block)
            return End();
        if (id == enter_block)
            return read_block(reader_);
        if (id == define_abbreviation) {
            auto abbreviation = read_abbreviation();
            (block_.id == block_info ? shared_[described_] : abbreviations_).push_back(std::move(abbreviation));
            continue;
        }
        if (id != unabbreviated && id - 4 >= abbreviations_.size())
            throw Damaged();
        Record record = id == unabbreviated ? read_unabbreviated() : read_by(abbreviations_[id - 4]);
        if (block_.id == block_info && record.code == 1 && !record.operands.empty())
            described_ = record.operands[0];
        return record;
    }
}

Abbreviation Items::read_abbreviation()
{
    Abbreviation result;
    const std::uint64_t count = reader_.variable(5);
    for (std::uint64_t i = 0; i < count; ++i) {
        if (reader_.fixed(1)) {
            result.push_back({Operand::literal, reader_.variable(8)});
            continue;
        }
        const std::uint64_t encoding = reader_.fixed(3);
        if (encoding < Operand::fixed || encoding > Operand::blob)
            throw Damaged();
        const bool sized = encoding == Operand::fixed || encoding == Operand::variable;
        result.push_back({static_cast<Operand::Encoding>(encoding), sized ? reader_.variable(5) : 0});
    }
    return result;
}

Record Items::read_unabbreviated()
{
    Record record{reader_.variable(6), {}, 0};
    const std::uint64_t count = reader_.variable(6);
    for (std::uint64_t i = 0; i < count; ++i)
        record.operands.push_back(reader_.variable(6));
    record.end = reader_.bit();
    return record;
}

std::uint64_t Items::read_scalar(const Operand& operand)
{
    switch (operand.encoding) {
    case Operand::literal: return operand.value;
    case Operand::fixed: return reader_.fixed(static_cast<unsigned>(operand.value));
    case Operand::variable: return operand.value ? reader_.variable(static_cast<unsigned>(operand.value)) : 0;
    case Operand::char6: return reader_.fixed(6);
    default: throw Damaged();
    }
}

Record Items::read_by(const Abbreviation& abbreviation)
{
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < abbreviation.size(); ++i) {
        const Operand& operand = abbreviation[i];
        if (operand.encoding == Operand::array) {
            if (i + 2 != abbreviation.size())
                throw Damaged();
            std::uint64_t count = reader_.variable(6);
            if (count > reader_.left())                    // elements may take no bits at all
                throw Damaged();
            for (; count > 0; --count)
                numbers.push_back(read_scalar(abbreviation[i + 1]));
            break;
        }
        if (operand.encoding == Operand::blob) {
            const std::uint64_t bytes = reader_.variable(6);
            if (bytes >= std::uint64_t{1} << 32)
                throw Damaged();
            reader_.align();
            reader_.go_to(reader_.bit() + bytes * 8);
            reader_.align();
            continue;
        }
        numbers.push_back(read_scalar(operand));
    }
    if (numbers.empty())
        throw Damaged();
    Record record{numbers[0], {numbers.begin() + 1, numbers.end()}, reader_.bit()};
    return record;
}

void Writer::fixed(std::uint64_t value, unsigned width)
{
    for (unsigned done = 0; done < width;) {
        const unsigned from = bits_ % 32, count = std::min(32 - from, width - done);
        words_.resize(std::max(words_.size(), bits_ / 32 + 1));
        const std::uint64_t part = value >> done & ((std::uint64_t{1} << count) - 1);
        words_[bits_ / 32] |= static_cast<std::uint32_t>(part << from);
        done += count;
        bits_ += count;
    }
}

void Writer::variable(std::uint64_t value, unsigned width)
{
    const std::uint64_t more = std::uint64_t{1} << (width - 1);
    for (; value >= more; value >>= width - 1)
        fixed((value & (more - 1)) | more, width);
    fixed(value, width);
}

void Writer::record(std::uint64_t code, std::span<const std::uint64_t> operands)
{
    fixed(unabbreviated, width_);
    variable(code, 6);
    variable(operands.size(), 6);
    for (const std::uint64_t operand : operands)
        variable(operand, 6);
}

void Writer::block(std::uint64_t id, unsigned width, std::span<const std::uint32_t> words)
{
    fixed(enter_block, width_);
    variable(id, 8);
    variable(width, 4);
    align();
    fixed(words.size(), 32);
    for (const std::uint32_t word : words)
        fixed(word, 32);
}

std::vector<std::uint32_t> Writer::end()
{
    fixed(end_block, width_);
    align();
    return std::move(words_);
}

}  // namespace clprim::detail::bitstream
