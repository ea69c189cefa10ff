#include <map>

#include "onnx/call.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/registered.hpp"

namespace clprim::onnx {

namespace {

using Key = std::pair<std::string_view, std::string_view>;   // domain, name

const std::multimap<Key, const OperatorRow*>& table()
{
    static const auto result = [] {
        std::multimap<Key, const OperatorRow*> rows;
        for (const OperatorRow& row : all_operators())
            rows.emplace(Key(row.domain, row.name), &row);
        return rows;
    }();
    return result;
}

}  // namespace

std::span<const OperatorRow> all_operators()
{
    static const auto rows = [] {
        std::vector<OperatorRow> all;
        for (const auto family : families())
            all.insert(all.end(), family.begin(), family.end());
        return all;
    }();
    return rows;
}

const OperatorRow* find_operator(std::string_view domain, std::string_view name, int opset)
{
    const OperatorRow* best = nullptr;
    const auto [begin, end] = table().equal_range(Key(domain, name));
    for (auto i = begin; i != end; ++i)
        if (i->second->since <= opset && (!best || i->second->since > best->since))
            best = i->second;
    return best ? best : find_registered(domain, name, opset);
}

}  // namespace clprim::onnx
