// Every function of kernels with every one of its tensors forged in turn: fields that say more than memory holds throw
// InvalidArgument before anything is launched. What is wrong otherwise (dtype, sizes, rank) throws or is computed; it
// writes nothing into neighbours, and the device goes on working.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/algebra_calls.hpp"
#include "kernels/layer_calls.hpp"

namespace clprim {
namespace {

using test::Call;
using test::make;
using test::Tensors;

// What a tensor can claim of memory that it does not have.
std::vector<std::pair<std::string, Tensor>> forgeries(const Tensor& t)
{
    std::vector<std::pair<std::string, Tensor>> result;
    const auto add = [&](std::string name, auto&& change) {
        Tensor forged = t;
        change(forged);
        result.emplace_back(std::move(name), std::move(forged));
    };
    add("begins a gibibyte on", [](Tensor& f) { f.offset = 1 << 30; });
    add("begins before its memory", [](Tensor& f) { f.offset = -1 - f.offset; });
    add("begins at the largest number", [](Tensor& f) { f.offset = INT64_MAX; });
    for (std::size_t axis = 0; axis < t.dim(); ++axis) {
        const std::string at = " in axis " + std::to_string(axis);
        if (t.shape[axis] > 1) {
            add("steps 2^40" + at, [&](Tensor& f) { f.strides[axis] = std::int64_t{1} << 40; });
            add("steps back" + at, [&](Tensor& f) { f.strides[axis] = -f.strides[axis]; });
            add("steps the largest number" + at, [&](Tensor& f) { f.strides[axis] = INT64_MAX; });
        }
        add("has a size of -1" + at, [&](Tensor& f) { f.shape[axis] = -1; });
        add("has a size of 2^40" + at, [&](Tensor& f) { f.shape[axis] = std::int64_t{1} << 40; });
        add("has a size of the largest number" + at, [&](Tensor& f) { f.shape[axis] = INT64_MAX; });
    }
    add("has a stride too few", [](Tensor& f) { f.strides.push_back(1); });
    return result;
}

std::vector<std::pair<std::string, Tensor>> others(const Tensor& t)
{
    std::vector<std::pair<std::string, Tensor>> result{{"is undefined", Tensor()}};
    for (const DataType type : {DataType::int64, DataType::uint8, DataType::boolean, DataType::complex64})
        if (type != t.dtype)
            result.emplace_back("is of " + std::string(name_of(type)), make(t.shape, type));
    for (std::size_t axis = 0; axis < t.dim(); ++axis)
        for (const std::int64_t size : {std::int64_t{0}, t.shape[axis] - 1, t.shape[axis] + 1}) {
            Dims shape = t.shape;
            shape[axis] = size;
            result.emplace_back("has " + std::to_string(size) + " in axis " + std::to_string(axis),
                                make(shape, t.dtype));
        }
    Dims more{1};
    for (const std::int64_t size : t.shape)
        more.push_back(size);
    result.emplace_back("has an axis more", make(more, t.dtype));
    if (t.dim() > 0)
        result.emplace_back("has an axis less", make(Dims(std::span(t.shape.data(), t.dim() - 1)), t.dtype));
    return result;
}

constexpr std::size_t call_count = 149;     // a constant, since tests are counted before there is a device

const std::vector<Call>& calls()
{
    static const std::vector<Call> all = [] {
        std::vector<Call> list = test::layer_calls();
        for (Call& call : test::algebra_calls())
            list.push_back(std::move(call));
        return list;
    }();
    return all;
}

TEST(ForgedOperands, EveryCallIsTried)
{
    EXPECT_EQ(calls().size(), call_count);
}

// A tensor amid memory that nobody may write to.
class Guarded {
public:
    Guarded(Queue& queue, const Tensor& model)
        : whole_(make({static_cast<std::int64_t>(model.nbytes() + 2 * guard)}, DataType::uint8, pattern)),
          inner_(whole_.memory, guard / size_of(model.dtype), model.dtype, model.shape,
                 contiguous_strides(model.shape))
    {
        copy(queue, model, inner_);
    }
    const Tensor& tensor() const { return inner_; }

    bool is_intact(Queue& queue) const
    {
        const std::vector<std::uint8_t> now = queue.read<std::uint8_t>(whole_);
        const auto kept = [](std::uint8_t byte) { return byte == pattern; };
        return std::all_of(now.begin(), now.begin() + guard, kept) &&
               std::all_of(now.end() - guard, now.end(), kept);
    }

private:
    static constexpr int guard = 1 << 16, pattern = 0x55;
    Tensor whole_, inner_;
};

class ForgedOperandsTest : public testing::TestWithParam<std::size_t> {
protected:
    static const Call& call()
    {
        return calls().at(GetParam());
    }

    static void expect_an_error_or_nothing(const Tensors& tensors, const std::string& what)
    {
        try {
            call().act(Context::get().queue(), tensors);
            Context::get().queue().finish();
        } catch (const Error& error) {
            EXPECT_STRNE(error.what(), "") << call().name;
        } catch (const std::exception& error) {
            ADD_FAILURE() << call().name << ": " << what << ": " << error.what();
        }
    }
};

TEST_P(ForgedOperandsTest, AreRefused)
{
    Queue& queue = Context::get().queue();
    ASSERT_NO_THROW(call().act(queue, call().tensors)) << call().name;
    for (std::size_t i = 0; i < call().tensors.size(); ++i)
        for (const auto& [what, forged] : forgeries(call().tensors[i])) {
            Tensors tensors = call().tensors;
            tensors[i] = forged;
            EXPECT_THROW(call().act(queue, tensors), InvalidArgument)
                << call().name << ": tensor " << i << ' ' << what;
        }
    queue.finish();
}

TEST_P(ForgedOperandsTest, WhatElseIsWrongIsAnErrorOrNoHarm)
{
    Queue& queue = Context::get().queue();
    for (std::size_t i = 0; i < call().tensors.size(); ++i)
        for (const auto& [what, wrong] : others(call().tensors[i])) {
            Tensors tensors = call().tensors;
            tensors[i] = wrong;
            expect_an_error_or_nothing(tensors, detail::concat("tensor ", i, ' ', what));
        }
    EXPECT_NO_THROW(call().act(queue, call().tensors));
    queue.finish();
}

// Indices, offsets, pivots and counts that point anywhere: found by the kernel, or read as something that is there.
TEST_P(ForgedOperandsTest, IndicesOutOfRangeAreAnErrorOrNoHarm)
{
    Queue& queue = Context::get().queue();
    for (std::size_t i = 0; i < call().tensors.size(); ++i) {
        const DataType type = call().tensors[i].dtype;
        if (type != DataType::int32 && type != DataType::int64 && type != DataType::uint64)
            continue;
        const std::int64_t largest = type == DataType::int32 ? INT32_MAX : INT64_MAX;
        for (const std::int64_t index : {-largest - 1, std::int64_t{-2}, std::int64_t{-1}, std::int64_t{0},
                                         std::int64_t{2}, std::int64_t{1000}, largest / 2, largest}) {
            std::vector<Guarded> guarded;
            Tensors tensors;
            for (const Tensor& t : call().tensors)
                tensors.push_back(guarded.emplace_back(queue, t).tensor());
            const std::int32_t narrow = static_cast<std::int32_t>(index);
            const auto bytes = type == DataType::int32 ? std::as_bytes(std::span(&narrow, 1))
                                                       : std::as_bytes(std::span(&index, 1));
            fill(queue, tensors[i], bytes);
            expect_an_error_or_nothing(tensors, detail::concat("tensor ", i, " holds ", index));
            for (std::size_t k = 0; k < guarded.size(); ++k)
                EXPECT_TRUE(guarded[k].is_intact(queue))
                    << call().name << ": with " << index << " in tensor " << i << " writes beside tensor " << k;
        }
    }
    EXPECT_NO_THROW(call().act(queue, call().tensors));
    queue.finish();
}

INSTANTIATE_TEST_SUITE_P(Functions, ForgedOperandsTest, testing::Range<std::size_t>(0, call_count),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace clprim
