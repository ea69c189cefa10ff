// Every function of kernels with every one of its tensors forged in turn: fields that say more than memory holds throw
// InvalidArgument before anything is launched. What is wrong otherwise (dtype, sizes, rank) throws or is computed; it
// writes nothing into neighbours, and the device goes on working.
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

class ForgedOperandsTest : public testing::TestWithParam<std::size_t> {
protected:
    static const Call& call()
    {
        static const std::vector<Call> all = [] {
            std::vector<Call> calls = test::layer_calls();
            for (Call& call : test::algebra_calls())
                calls.push_back(std::move(call));
            return calls;
        }();
        return all.at(GetParam());
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
            try {
                call().act(queue, tensors);
                queue.finish();
            } catch (const Error& error) {
                EXPECT_STRNE(error.what(), "") << call().name;
            } catch (const std::exception& error) {
                ADD_FAILURE() << call().name << ": tensor " << i << ' ' << what << ": " << error.what();
            }
        }
    EXPECT_NO_THROW(call().act(queue, call().tensors));
    queue.finish();
}

INSTANTIATE_TEST_SUITE_P(Functions, ForgedOperandsTest, testing::Range<std::size_t>(0, 115),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace clprim
