// LLVM's bitstream container (llvm.org/docs/BitCodeFormat.html): blocks within blocks, records of numbers in them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

namespace clprim::detail::bitstream {

// What is read is not as it should be.
struct Damaged : std::runtime_error {
    Damaged() : std::runtime_error("not a bitstream") {}
};

// Numbers of the format's own.
enum AbbreviationId { end_block = 0, enter_block = 1, define_abbreviation = 2, unabbreviated = 3 };
enum BlockId { block_info = 0 };
constexpr unsigned outermost_width = 2;   // bits of abbreviation ids outside of blocks

class Reader {
public:
    Reader(std::span<const unsigned char> data, std::size_t bit) : data_(data), bit_(bit) {}

    std::uint64_t fixed(unsigned width)
    {
        if (width > 64 || width > left())
            throw Damaged();
        std::uint64_t value = 0;
        for (unsigned done = 0; done < width;) {
            const unsigned from = bit_ % 8, count = std::min(8 - from, width - done);
            const std::uint64_t bits = data_[bit_ / 8] >> from & ((1u << count) - 1);
            value |= bits << done;
            done += count;
            bit_ += count;
        }
        return value;
    }

    std::uint64_t variable(unsigned width)
    {
        if (width < 2 || width > 32)
            throw Damaged();
        const std::uint64_t more = std::uint64_t{1} << (width - 1);
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += width - 1) {
            const std::uint64_t chunk = fixed(width);
            value |= (chunk & (more - 1)) << shift;
            if (!(chunk & more))
                return value;
        }
        throw Damaged();
    }

    void align() { go_to((bit_ + 31) / 32 * 32); }
    std::size_t bit() const { return bit_; }
    std::size_t word() const { return bit_ / 32; }
    std::size_t left() const { return data_.size() * 8 - bit_; }
    void go_to(std::size_t bit)
    {
        if (bit < bit_ || bit > data_.size() * 8)
            throw Damaged();
        bit_ = bit;
    }

private:
    std::span<const unsigned char> data_;
    std::size_t bit_;
};

struct Operand {
    enum Encoding { literal = 0, fixed = 1, variable = 2, array = 3, char6 = 4, blob = 5 } encoding;
    std::uint64_t value;                       // of a literal; the width of others
};
using Abbreviation = std::vector<Operand>;

struct Block {
    std::uint64_t id;
    unsigned width;                            // bits of abbreviation ids in it
    std::size_t begin, words;                  // where its content is, in words of 32 bits
};

struct Record {
    std::uint64_t code;
    std::vector<std::uint64_t> operands;       // a blob counts as none
    std::size_t end;                           // the bit behind it
};

struct End {};

// What lies in a block, one after another; blocks within it are passed over. Abbreviations that BLOCKINFO gives other
// blocks end up in `shared`.
class Items {
public:
    using Shared = std::map<std::uint64_t, std::vector<Abbreviation>>;

    Items(std::span<const unsigned char> data, const Block& block, Shared& shared);
    std::variant<Block, Record, End> next();

private:
    Abbreviation read_abbreviation();
    Record read_unabbreviated();
    Record read_by(const Abbreviation& abbreviation);
    std::uint64_t read_scalar(const Operand& operand);

    Reader reader_;
    Block block_;
    Shared& shared_;
    std::vector<Abbreviation> abbreviations_;
    std::uint64_t described_ = 0;              // the block that BLOCKINFO speaks of
};

// The header of a block whose abbreviation id has been read. The reader goes behind the block.
Block read_block(Reader& reader);

// What belongs into a block, without its header.
class Writer {
public:
    explicit Writer(unsigned width) : width_(width) {}

    void record(std::uint64_t code, std::span<const std::uint64_t> operands);
    void block(std::uint64_t id, unsigned width, std::span<const std::uint32_t> words);
    std::vector<std::uint32_t> end();

private:
    void fixed(std::uint64_t value, unsigned width);
    void variable(std::uint64_t value, unsigned width);
    void align() { bits_ = (bits_ + 31) / 32 * 32; }

    unsigned width_;
    std::size_t bits_ = 0;
    std::vector<std::uint32_t> words_;
};

}  // namespace clprim::detail::bitstream
