#include <kernels/loop/small_loop.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <kernels/pointwise/source.hpp>

namespace clprim {

namespace {

using Value = SmallLoop::Value;
using Place = Value::Place;

constexpr std::int64_t lanes = 16, arena_words = 4096;   // work-items; 64-bit words of local memory
constexpr std::int64_t most_products = 1 << 16, most_arguments = 48;
// As measured, in multiplications of a product: an element of another step, a launch, a wait for a condition. One
// work-group computes on one core, and elementwise functions there without vectors.
constexpr std::int64_t element_cost = 32, launch_cost = 50000, wait_cost = 120000;

bool in_arena(const Value& value) { return value.place == Place::carried || value.place == Place::computed; }
bool is_argument(const Value& value)
{
    return value.place == Place::outside || value.place == Place::element || value.place == Place::carried;
}

// More than there are where the shape is too large to count with.
std::int64_t words_of(const Value& value)
{
    if (value.shape.product() > 8 * arena_words)
        return arena_words + 1;
    return (value.shape.product() * static_cast<std::int64_t>(size_of(value.dtype)) + 7) / 8;
}

const char* type_of(DataType dtype)
{
    return dtype == DataType::float32 ? "float" : dtype == DataType::int64 ? "long" : "uchar";
}

// The shape without axes of one element in front.
Dims stripped(const Dims& shape)
{
    std::size_t first = 0;
    while (first < shape.size() && shape[first] == 1)
        ++first;
    return Dims(std::span<const std::int64_t>(shape).subspan(first));
}

// Whether elements of `operand` repeat in `result` as they lie.
bool repeats(const Dims& operand, const Dims& result)
{
    const Dims own = stripped(operand), whole = stripped(result);
    return own.size() <= whole.size() && std::equal(own.begin(), own.end(), whole.end() - own.size());
}

std::int64_t columns_of(const SmallLoop::Step& step, const std::vector<Value>& values)
{
    const Dims& b = values[step.inputs[1]].shape;
    return b[1];
}

std::int64_t depth_of(const SmallLoop::Step& step, const std::vector<Value>& values)
{
    const Dims& b = values[step.inputs[1]].shape;
    return b[0];
}

// Writes the kernel. Sizes are numbers of an argument, since no shape is compiled into a program.
class Writer {
public:
    explicit Writer(const SmallLoop& loop) : loop_(loop) {}

    std::string text()
    {
        std::string body, inside;
        for (const SmallLoop::Step& step : loop_.steps)
            inside += step_text(step);
        for (std::size_t k = 0; k < loop_.scanned.size(); ++k)
            inside += scanned_text(k);
        if (loop_.condition != no_value)
            inside += fmt::format("        go = {};\n", read(loop_.condition, "0"));
        for (const SmallLoop::Carried& carried : loop_.carried)
            if (carried.value != carried.next && changes_place(carried))
                inside += fmt::format("        {{ __local {0}* old = v{1}; v{1} = v{2}; v{2} = old; }}\n",
                                      type_of(loop_.values[carried.value].dtype), carried.value, carried.next);
            else if (carried.value != carried.next)
                inside += fmt::format("        EACH({}) v{}[i] = {};\n", count(carried.value), carried.value,
                                      read(carried.next, "i"));
        for (std::size_t k = 0; k < loop_.carried.size(); ++k) {
            const std::size_t v = loop_.carried[k].value;
            begin_ += fmt::format("    EACH({0}) v{1}[i] = g{1}[i];\n", count(v), v);
            end_ += fmt::format("    EACH({0}) c{2}[c{2}_offset + i] = v{1}[i];\n", count(v), v, k);
        }
        const std::string head = head_text();
        std::string result = include_text("core/dtype.cl") + index_text(false) + type_text(DataType::float32) +
                             include_text("kernels/pointwise/math.cl");
        // All work-items go through a loop alike: compilers make vectors of what is within.
        result += fmt::format("#define LANES {}\n#define EACH(count) for (int begin = 0, i = lane; "
                              "begin < (int)(count); begin += LANES, i += LANES) if (i < (int)(count))\n"
                              "#define TOGETHER barrier(CLK_LOCAL_MEM_FENCE);\n"
                              "typedef struct {{ long n[{}]; }} loop_sizes;\n",
                              lanes, std::max<std::size_t>(sizes_.size(), 1));
        return result + head + begin_ +
               "    TOGETHER\n    long t = first;\n    while (t < last && go) {\n" + elements_ + inside +
               "        TOGETHER\n        ++t;\n    }\n" + end_ +
               "    if (lane == 0) {\n        state[state_offset] = t;\n"
               "        state[state_offset + 1] = go;\n    }\n}\n";
    }

    const std::vector<std::int64_t>& sizes() const { return sizes_; }

private:
    std::string size(std::int64_t number)
    {
        sizes_.push_back(number);
        return fmt::format("s.n[{}]", sizes_.size() - 1);
    }

    std::string count(std::size_t value) { return size(loop_.values[value].shape.product()); }

    std::string read(std::size_t value, const std::string& at) const
    {
        return loop_.values[value].place == Place::iteration ? "t" : fmt::format("v{}[{}]", value, at);
    }

    // Whether the next value may stay where it is, and the one before gives its place to the one after: nobody else
    // takes it over.
    bool changes_place(const SmallLoop::Carried& carried) const
    {
        return loop_.values[carried.next].place == Place::computed &&
               std::ranges::count(loop_.carried, carried.next, &SmallLoop::Carried::next) == 1;
    }

    std::string head_text()
    {
        std::string head = fmt::format("__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid loop(", lanes);
        std::string declared;
        std::int64_t word = 0;
        for (std::size_t v = 0; v < loop_.values.size(); ++v) {
            const Value& value = loop_.values[v];
            const char* type = type_of(value.dtype);
            if (is_argument(value)) {
                head += fmt::format("const __global {0}* g{1}, ulong g{1}_offset, ", type, v);
                declared += fmt::format("    g{0} += g{0}_offset;\n", v);
            }
            if (value.place == Place::outside)
                declared += fmt::format("    const __global {0}* v{1} = g{1};\n", type, v);
            if (value.place == Place::element)
                elements_ += fmt::format("        const __global {0}* v{1} = g{1} + {2} * {3};\n", type, v,
                                         value.backwards ? "(length - 1 - t)" : "t", count(v));
            if (in_arena(value)) {
                declared += fmt::format("    __local {0}* v{1} = (__local {0}*)(arena + {2});\n", type, v, size(word));
                word += words_of(value);
            }
        }
        for (std::size_t k = 0; k < loop_.carried.size(); ++k)
            head += fmt::format("__global {0}* c{1}, ulong c{1}_offset, ",
                                type_of(loop_.values[loop_.carried[k].value].dtype), k);
        for (std::size_t k = 0; k < loop_.scanned.size(); ++k)
            head += fmt::format("__global {0}* r{1}, ulong r{1}_offset, ",
                                type_of(loop_.values[loop_.scanned[k].value].dtype), k);
        return head +
               fmt::format("const __global uchar* start, ulong start_offset, __global long* state, ulong state_offset, "
                           "long known, long first, long last, long length, loop_sizes s)\n{{\n"
                           "    __local ulong arena[{}];\n    const int lane = (int)get_local_id(0);\n"
                           "    long go = known ? 1 : start[start_offset];\n", arena_words) + declared;
    }

    std::string scanned_text(std::size_t k)
    {
        const SmallLoop::Scanned& scanned = loop_.scanned[k];
        const std::string all = count(scanned.value);
        return fmt::format("        EACH({0}) r{1}[r{1}_offset + {2} * {0} + i] = {3};\n", all, k,
                           scanned.backwards ? "(length - 1 - t)" : "t", read(scanned.value, "i"));
    }

    std::string step_text(const SmallLoop::Step& step)
    {
        return (step.kind == SmallLoop::Step::Kind::elementwise ? elementwise_text(step)
                : step.kind == SmallLoop::Step::Kind::product   ? product_text(step)
                                                     : reduction_text(step)) +
               "        TOGETHER\n";
    }

    // Rows of what repeats most often: places within them are lanes', so that vectors read what lies side by side.
    std::string elementwise_text(const SmallLoop::Step& step)
    {
        const Value& y = loop_.values[step.output];
        const std::int64_t all = y.shape.product();
        std::size_t row = step.output;
        for (const std::size_t input : step.inputs) {
            const std::int64_t own = loop_.values[input].shape.product();
            if (own != 1 && own < loop_.values[row].shape.product())
                row = input;
        }
        std::string text = fmt::format("        for (uint row = 0; row < (uint){}; row += (uint){}) EACH({}) {{ ",
                                       count(step.output), count(row), count(row));
        for (std::size_t k = 0; k < step.inputs.size(); ++k) {
            const Value& x = loop_.values[step.inputs[k]];
            const std::int64_t own = x.shape.product();
            // Pointers to rows: that places of lanes lie side by side is seen in i alone.
            const std::string from = own == all ? "row" : "row % (uint)" + count(step.inputs[k]);
            const std::string element = x.place == Place::iteration || own == 1
                                            ? read(step.inputs[k], "0")
                                            : fmt::format("(v{} + {})[i]", step.inputs[k], from);
            text += fmt::format("const {} x{} = {}; ", type_of(x.dtype), k, element);
        }
        return text + fmt::format("{0} y0; {1} (v{2} + row)[i] = y0; }}\n", type_of(y.dtype), step.code, step.output);
    }

    // Eight rows at once, which share what is read of b, while there are eight; else four sums of a row side by side.
    std::string product_text(const SmallLoop::Step& step)
    {
        const std::int64_t n = columns_of(step, loop_.values), k = depth_of(step, loop_.values);
        const std::int64_t rows = loop_.values[step.output].shape.product() / std::max<std::int64_t>(n, 1);
        const std::string all = size(rows), columns = size(n), depth = size(k);
        return fmt::format("        {{ const int rows = (int){}, columns = (int){}, depth = (int){}; int row = 0;\n",
                           all, columns, depth) +
               fmt::format("        for (; row + 8 <= rows; row += 8) {}"
                           "        for (; row < rows; ++row) {}        }}\n",
                           rows_text(step, 8, 1), rows_text(step, 1, 4));
    }

    std::string rows_text(const SmallLoop::Step& step, int rows, int sums) const
    {
        std::string declared, together, single, results;
        for (int r = 0; r < rows; ++r) {
            std::string sum;
            for (int j = 0; j < sums; ++j) {
                declared += fmt::format("float sum{0}_{1} = {2}; ", r, j,
                                        j == 0 && step.inputs.size() > 2 ? fmt::format("v{}[i]", step.inputs[2]) : "0");
                together += fmt::format("sum{0}_{1} = fma(a{0}[k + {1}], b{1}, sum{0}_{1}); ", r, j);
                sum += fmt::format("{}sum{}_{}", j ? " + " : "", r, j);
            }
            declared += fmt::format("const {0} float* a{1} = v{2} + (row + {1}) * depth; ",
                                    in_arena(loop_.values[step.inputs[0]]) ? "__local" : "__global", r, step.inputs[0]);
            single += fmt::format("sum{0}_0 = fma(a{0}[k], b, sum{0}_0); ", r);
            results += fmt::format("v{}[(row + {}) * columns + i] = {}; ", step.output, r, sum);
        }
        std::string read;
        for (int j = 0; j < sums; ++j)
            read += fmt::format("const float b{0} = v{1}[(k + {0}) * columns + i]; ", j, step.inputs[1]);
        return fmt::format("EACH(columns) {{\n            {}int k = 0;\n"
                           "            for (; k + {} <= depth; k += {}) {{ {}{}}}\n"
                           "            for (; k < depth; ++k) {{ const float b = v{}[k * columns + i]; {}}}\n"
                           "            {}\n        }}\n",
                           declared, sums, sums, read, together, step.inputs[1], single, results);
    }

    std::string reduction_text(const SmallLoop::Step& step)
    {
        const std::string inner = size(step.inner);
        return fmt::format("        EACH({0}) {{ T sum = {1}; for (int k = 0; k < (int){2}; ++k) {{ "
                           "const T x = v{3}[i * (int){2} + k]; {4} }} v{5}[i] = sum{6}; }}\n",
                           count(step.output), step.from, inner, step.inputs[0], step.code, step.output,
                           step.mean ? " / (float)" + inner : "");
    }

    const SmallLoop& loop_;
    std::vector<std::int64_t> sizes_;
    std::string begin_, elements_, end_;
};

}  // namespace

bool is_small(const SmallLoop& loop, const Device& device)
{
    if (device.kind != DeviceKind::cpu || device.max_work_group_size < lanes || loop.steps.empty() ||
        device.local_memory < arena_words * 8)
        return false;
    std::int64_t words = 0, products = 0, elements = 0, arguments = 2;
    for (const Value& value : loop.values) {
        words = std::min(words + (in_arena(value) ? words_of(value) : 0), arena_words + 1);
        arguments += is_argument(value);
    }
    arguments += static_cast<std::int64_t>(loop.carried.size() + loop.scanned.size());
    for (const SmallLoop::Step& step : loop.steps) {
        const Dims& result = loop.values[step.output].shape;
        if (words_of(loop.values[step.output]) > arena_words)
            return false;
        if (step.kind == SmallLoop::Step::Kind::product)
            products += result.product() * std::min(depth_of(step, loop.values), most_products + 1);
        else if (step.kind == SmallLoop::Step::Kind::elementwise)
            for (const std::size_t input : step.inputs)
                if (!repeats(loop.values[input].shape, result))
                    return false;
        if (result.product() == 0)
            return false;
        elements += step.kind == SmallLoop::Step::Kind::elementwise ? result.product()
                    : step.kind == SmallLoop::Step::Kind::reduction ? result.product() * step.inner
                                                                    : 0;
    }
    const std::int64_t launches = launch_cost * static_cast<std::int64_t>(loop.steps.size());
    if (products + element_cost * elements > launches + (loop.condition != no_value ? wait_cost : 0))
        return false;
    return words <= arena_words && products <= most_products && arguments <= most_arguments;
}

SmallLoopProgram::SmallLoopProgram(Context& context, SmallLoop loop_) : loop(std::move(loop_))
{
    Writer writer(loop);
    const std::string text = writer.text();
    sizes = writer.sizes();
    kernel = &context.program_from_text("small loop", text).kernel("loop");
}

void run_small_loop(Queue& queue, const SmallLoopProgram& program, const SmallLoopTensors& tensors, std::int64_t first,
                    std::int64_t end)
{
    Launch launch(queue, *program.kernel);
    for (std::size_t v = 0; v < program.loop.values.size(); ++v)
        if (is_argument(program.loop.values[v]))
            launch.arg(tensors.inputs[v]);
    for (const std::vector<Tensor>* results : {&tensors.carried, &tensors.scanned})
        for (const Tensor& result : *results)
            launch.arg(result);
    launch.arg(tensors.condition.defined() ? tensors.condition : tensors.state).arg(tensors.state);
    for (const std::int64_t number : {std::int64_t{!tensors.condition.defined()}, first, end, end})
        launch.arg(number);
    launch.set(program.sizes.size() * sizeof(std::int64_t), program.sizes.data());
    launch.run(Range::groups({1, 1, 1}, {lanes, 1, 1}));
}

}  // namespace clprim
