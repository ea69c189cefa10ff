#include <kernels/reduce/source.hpp>

#include <algorithm>

namespace clprim::reduction {

using detail::concat;

namespace {

// Calls visit(type, name) for each field of `TYPE NAME, NAME; TYPE NAME;`; false where the state is more than that.
template <class Visit>
bool visit_fields(std::string_view state, const Visit& visit)
{
    constexpr std::string_view letters = "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const auto word = [&] {
        state.remove_prefix(std::min(state.find_first_not_of(' '), state.size()));
        const std::string_view found = state.substr(0, state.find_first_not_of(letters));
        state.remove_prefix(found.size());
        state.remove_prefix(std::min(state.find_first_not_of(' '), state.size()));
        return found;
    };
    for (std::string_view type = word(); !type.empty(); type = word()) {
        char end = ',';
        while (end == ',') {
            const std::string_view name = word();
            if (name.empty() || state.empty())
                return false;
            end = state.front();
            state.remove_prefix(1);
            visit(type, name);
        }
        if (end != ';')
            return false;
    }
    return state.empty();
}

// `count` states field by field.
std::string accumulators_text(std::string_view state, unsigned count)
{
    std::string arrays, get, put;
    visit_fields(state, [&](std::string_view type, std::string_view name) {
        arrays += concat(type, ' ', name, '[', count, "]; ");
        get += concat("    s.", name, " = a->", name, "[k];\n");
        put += concat("    a->", name, "[k] = s.", name, ";\n");
    });
    return concat("#define ACCUMULATORS ", count, "\ntypedef struct { ", arrays, "} accumulators_t;\n",
                  "static inline state_t get(const accumulators_t* a, int k)\n{\n    state_t s;\n", get,
                  "    return s;\n}\nstatic inline void put(accumulators_t* a, int k, state_t s)\n{\n", put, "}\n");
}

// What the type of a field stands for: one of OpenCL C's.
std::string_view plain_type(std::string_view type, DataType common)
{
    return type == "T"         ? opencl_compute_type(common)
           : type == "R"       ? opencl_compute_type(real_type(common))
           : type == "index_t" ? std::string_view("uint")
                               : type;
}

// 0 where vectors of it are not exchanged.
unsigned bytes_of(std::string_view plain)
{
    using Name = std::string_view;
    const auto is = [&](auto... names) { return ((plain == Name(names)) || ...); };
    return is("char", "uchar") ? 1 : is("short", "ushort") ? 2 : is("int", "uint", "float") ? 4
           : is("long", "ulong", "double") ? 8 : 0;
}

// The fields of a state. On GPUs those of less than 32 bits would put the structure into private memory.
std::string state_text(std::string_view state, DataType common, bool cpu)
{
    const bool small = size_of(common) < 4 && !is_floating_point(common) && !is_complex(common);
    std::string fields;
    bool widened = false;
    const bool plain = visit_fields(state, [&](std::string_view type, std::string_view name) {
        const bool widens = type == "bool" || (small && type == "T");
        widened |= widens;
        fields += concat(widens ? "int" : type, ' ', name, "; ");
    });
    return !cpu && plain && widened ? fields : std::string(state);
}

std::string interleave_text(const ReduceCode& code, DataType common, unsigned together)
{
    std::string fields;
    visit_fields(code.state, [&](std::string_view type, std::string_view name) {
        const std::string_view plain = plain_type(type, common);
        fields += concat(" FIELD(", plain, together, ", ", plain, ", ", name, ")");
    });
    return concat("#define TOGETHER ", together, "\n#define EACH_FIELD(FIELD)", fields, "\n");
}

}  // namespace

// Every field has at most 16 bytes.
std::size_t state_bytes(std::string_view state)
{
    return 16 * static_cast<std::size_t>(
                    1 + std::count_if(state.begin(), state.end(), [](char c) { return c == ',' || c == ';'; }));
}

bool fits_lanes(const ReduceCode& code)
{
    const auto calls = {"exp", "log", "pow"};
    int fields = 0;
    const bool plain = visit_fields(code.state, [&](std::string_view, std::string_view) { ++fields; });
    return plain && fields > 0 && fields <= 3 && std::none_of(calls.begin(), calls.end(), [&](const char* name) {
        return code.step.find(name) != std::string_view::npos;
    });
}

unsigned rows_together(const ReduceCode& code, DataType common)
{
    unsigned fields = 0, widest = 0;
    bool fits = fits_lanes(code);
    visit_fields(code.state, [&](std::string_view type, std::string_view) {
        const unsigned bytes = bytes_of(plain_type(type, common));
        ++fields;
        fits &= bytes > 0;
        widest = std::max(widest, bytes);
    });
    return !fits || fields > 2 ? 0 : widest == 8 ? 8 : 16;
}

std::string program_text(const Call& call, const TextRequest& request)
{
    const std::vector<Variable> inputs(request.operands.begin(),
                                       request.operands.begin() + static_cast<std::ptrdiff_t>(call.inputs));
    const std::vector<Variable> outputs(request.operands.begin() + static_cast<std::ptrdiff_t>(call.inputs),
                                        request.operands.end());
    std::string numbers, forwarded, step_call, column_call, finish_call, finish_column;
    const char* reported = call.reports ? "__global int* errors, int operator_code, " : "";
    const char* reporting = call.reports ? "errors, operator_code, " : "";
    for (const Number& n : request.numbers)
        numbers += n.name + ", ";
    for (std::size_t k = 0; k < request.operands.size(); ++k) {
        const Variable& v = request.operands[k];
        forwarded += concat(v.name, "_data, ", v.name, "_offset, ");
        if (v.output) {
            const std::string place = concat(v.name, "_data, base[", k, "]");
            finish_call += place + ", ";
            finish_column += concat(place, " + (c) * STRIDE(g, REDUCED_RANK, ", k, "), ");
        } else {
            const std::string element = concat(v.name, "_data, position[", k, "] + (i) * STRIDE(g, 0, ", k, ")");
            step_call += element + ", ";
            column_call += concat(element, " + (c) * STRIDE(g, REDUCED_RANK, ", k, "), ");
        }
    }
    const bool cpu = call.own_lanes || call.columns;
    std::string text = include_text("core/dtype.cl") + index_text(call.wide) + type_text(request.common);
    text += math_text(request.code.step) + typedef_text(request.operands, request.numbers);
    if (call.reports)
        text += include_text("core/errors.cl");
    text += concat("#define RANK ", call.reduced_rank + call.kept_rank, "\n#define REDUCED_RANK ", call.reduced_rank,
                   "\n#define OPERANDS ", request.operands.size(), "\n#define LANES ", call.lanes,
                   "\n#define BESIDE ", call.beside, "\n#define ACROSS ", call.across ? 1 : 0, "\n#define GROUP ",
                   call.group,
                   "\n#define STRIDE(g, d, k) (((d) == 0 && (",
                   call.unit_reduced, " >> (k) & 1)) || ((d) == REDUCED_RANK && (", call.unit_kept,
                   " >> (k) & 1)) ? 1 : (g)->stride[d][k])\n");
    text += include_text("kernels/pointwise/geometry.cl");
    text += concat("typedef struct { ", state_text(request.code.state, request.common, cpu),
                   " } state_t;\nstatic inline state_t init()\n{\n    state_t s;\n    ", request.code.init,
                   "\n    return s;\n}\nstatic inline state_t combine(state_t s, state_t other)\n{\n    ",
                   request.code.combine, "\n    return s;\n}\n");
    if (cpu)   // Intel's compiler finds vectors in arithmetic, and not around a call
        text += "#define fabs(v) ((v) < 0 ? -(v) : (v))\n";
    text += concat("static inline state_t step(state_t s, ", inline_parameter_text(inputs, request.numbers),
                   "index_t index)\n{\n");
    for (const Variable& v : inputs)
        text += load_text(v);
    text += concat("    ", request.code.step, "\n    return s;\n}\nstatic inline void finish(state_t s, ",
                   inline_parameter_text(outputs, request.numbers), reported, "ulong count)\n{\n");
    for (const Variable& v : outputs)
        text += concat("    typeof_", v.name, " ", v.name, ";\n");
    text += concat("    ", request.code.finish, "\n");
    for (const Variable& v : outputs)
        text += store_text(v);
    text += concat("}\n#define PARAMETERS ", parameter_text(request.operands, request.numbers), reported,
                   "\n#define ARGUMENTS ", forwarded, numbers, reporting, "\n#define SHIFT ",
                   shift_text(request.operands), "\n#define STEP(s, i, index) step(s, ", step_call, numbers,
                   "index)\n#define FINISH(s, count) finish(s, ", finish_call, numbers, reporting, "count)\n");
    if (cpu && std::ranges::any_of(inputs, [](const Variable& v) { return v.dtype != v.type || size_of(v.dtype) < 4; }))
        text += "#define CONVERTED\n";
    if (call.own_lanes || call.columns)
        text += accumulators_text(request.code.state, call.columns ? call.columns : call.lanes);
    if (call.rows)
        text += interleave_text(request.code, request.common, call.rows);
    if (call.columns)
        text += concat("#define COLUMNS ", call.columns, "\n#define STEP_COLUMN(s, i, c, index) step(s, ", column_call,
                       numbers, "index)\n");
    if (call.columns || call.rows)
        text += concat("#define FINISH_COLUMN(s, c, count) finish(s, ", finish_column, numbers, reporting, "count)\n");
    return text +
           include_text(call.rows ? "kernels/reduce/cpu_reduce_rows.cl"
                        : cpu     ? "kernels/reduce/cpu_reduce.cl"
                                  : "kernels/reduce/reduce.cl") +
           include_text("kernels/reduce/merge.cl");
}

}  // namespace clprim::reduction
