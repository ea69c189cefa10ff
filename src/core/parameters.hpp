// What an implementation can be asked for beyond the problem: a few whole numbers with names, such as the size of a
// tile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct Parameter {
    std::string name;
    std::vector<std::int64_t> values;   // worth trying, ascending
    std::int64_t usual;                 // what the implementation takes by itself
};
using Space = std::vector<Parameter>;

// A value for each parameter of a space.
class Point {
public:
    Point() = default;                       // of an implementation without parameters
    Point(std::initializer_list<std::pair<std::string, std::int64_t>> values) : values_(values) {}
    static Point usual(const Space& space);
    // From "tile=64:slab=16"; parameters that it leaves out are as usual. Throws InvalidArgument, with what there is,
    // for a parameter or value that the space does not have.
    static Point parse(std::string_view text, const Space& space);

    bool empty() const { return values_.empty(); }
    std::int64_t at(std::string_view name) const;   // throws InvalidArgument where there is none
    void set(std::string_view name, std::int64_t value);
    std::string text() const;                // "tile=64:slab=16"
    bool operator==(const Point&) const = default;

private:
    std::vector<std::pair<std::string, std::int64_t>> values_;
};

// All points, the first parameter's values outermost; each value is one of its parameter's.
std::vector<Point> every_point(const Space& space);
std::int64_t count_points(const Space& space);
// Those that differ from a point in one parameter by one step. A usual value that is not among the values counts as the
// nearest one.
std::vector<Point> neighbours(const Point& point, const Space& space);

}  // namespace clprim
CLPRIM_API_END
