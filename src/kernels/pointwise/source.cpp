#include <kernels/pointwise/source.hpp>

#include <cctype>
#include <mutex>
#include <set>

namespace clprim {

using detail::concat;

namespace {

std::string_view suffix(DataType type)
{
    return type == DataType::boolean ? "boolean" : name_of(type);
} // in core/dtype.cl
std::string compute_type(DataType type) { return concat("compute_t(", suffix(type), ")"); }
std::string storage_type(DataType type) { return concat("storage_t(", suffix(type), ")"); }
bool has_double(DataType type) { return type == DataType::float64 || type == DataType::complex128; }

}  // namespace

DataType real_type(DataType type)
{
    switch (type) {
    case DataType::complex32: return DataType::float16;
    case DataType::bcomplex32: return DataType::bfloat16;
    case DataType::complex64: return DataType::float32;
    case DataType::complex128: return DataType::float64;
    default: return type;
    }
}

std::string convert_text(const std::string& expression, DataType from, DataType to)
{
    if (opencl_compute_type(from) == opencl_compute_type(to) && (to != DataType::boolean || from == DataType::boolean))
        return expression;
    if (to == DataType::boolean)
        return is_complex(from) ? concat("any((", expression, ") != 0)") : concat("((", expression, ") != 0)");
    if (is_complex(to)) {
        if (is_complex(from))
            return concat("convert_", opencl_compute_type(to), "(", expression, ")");
        return concat("(", compute_type(to), ")((", compute_type(real_type(to)), ")(", expression, "), 0)");
    }
    require<NotSupported>(!is_complex(from), "a complex result cannot be converted to ", name_of(to));
    return concat("(", compute_type(to), ")(", expression, ")");
}

std::string type_text(DataType common)
{
    const char* kind = is_complex(common)              ? "T_COMPLEX"
                       : is_floating_point(common)     ? "T_FLOAT"
                       : common == DataType::boolean   ? "T_BOOL"
                       : is_signed(common)             ? "T_SIGNED"
                                                       : "T_UNSIGNED";
    std::string text = concat("typedef ", compute_type(common), " T;\ntypedef ", compute_type(real_type(common)),
                              " R;\n#define ", kind, "\n#define T_SIZE ", size_of(common), "\n");
    if (has_double(common))
        text += "#define T_DOUBLE\n";
    return text;
}

std::string math_text(std::string_view code)
{
    // A sine and a cosine of a number that is one of another such pair: four calls at the least.
    int calls = 0;
    for (const std::string_view name : {"sin(", "cos("})
        for (std::size_t at = code.find(name); at != code.npos; at = code.find(name, at + 1))
            calls += at == 0 || !(std::isalnum(static_cast<unsigned char>(code[at - 1])) || code[at - 1] == '_');
    return include_text("kernels/pointwise/math.cl") +
           (calls > 3 ? include_text("kernels/pointwise/cpu_sines.cl") : std::string());
}

std::string wrapping_text(DataType type)
{
    const std::string name(compute_type(type));
    return concat("static inline ", name, " wrapped_", name_of(type), "(", name, " v)\n{\n    volatile ", name,
                  " kept = v;\n    return kept;\n}\n");
}

std::string parameter_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers)
{
    std::string text;
    for (const Variable& v : operands) {
        if (v.step == Step::value)
            text += concat("const ", compute_type(v.type), " ", v.name, "_value, ");
        else
            text += concat("__global ", v.output ? "" : "const ", storage_type(v.dtype), "* ", v.name, "_data, ulong ",
                           v.name, "_offset, ");
    }
    for (const Number& n : numbers)
        text += concat("const ", compute_type(n.type), " ", n.name, ", ");
    return text;
}

std::string shift_text(const std::vector<Variable>& operands)
{
    std::string text;
    for (const Variable& v : operands)
        if (v.step != Step::value)
            text += concat(v.name, "_data += ", v.name, "_offset; ");
    return text;
}

std::string inline_parameter_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers)
{
    std::string text;
    for (const Variable& v : operands) {
        if (v.step == Step::value)
            text += concat("const ", compute_type(v.type), " ", v.name, "_value, ");
        else
            text += concat("__global ", v.output ? "" : "const ", storage_type(v.dtype), "* ", v.name,
                           "_data, offset_t ", v.name, "_at, ");
    }
    for (const Number& n : numbers)
        text += concat("const ", compute_type(n.type), " ", n.name, ", ");
    return text;
}

std::string load_text(const Variable& v)
{
    if (v.step == Step::value)
        return concat("    const ", compute_type(v.type), " ", v.name, " = ", v.name, "_value;\n");
    std::string loaded = concat("load_", suffix(v.dtype), "(", v.name, "_data, ", v.name, "_at)");
    return concat("    const ", compute_type(v.type), " ", v.name, " = ", convert_text(loaded, v.dtype, v.type), ";\n");
}

namespace {

// An output variable as a value of the compute type of its dtype.
std::string result_text(const Variable& v)
{
    std::string value = v.name;
    if (v.rounded == DataType::boolean && v.dtype != DataType::boolean)   // a sum of booleans may be 2
        value = concat("(", value, " != 0)");
    bool short_float = v.rounded == DataType::float16 || v.rounded == DataType::bfloat16;
    if (short_float && v.dtype != v.rounded && v.dtype != DataType::boolean)
        value = concat("round_", name_of(v.rounded), "(", value, ")");
    if (v.wraps)
        value = concat("wrapped_", name_of(v.type), "(", value, ")");
    return convert_text(value, v.type, v.dtype);
}

}  // namespace

std::string store_text(const Variable& v)
{
    return concat("    store_", suffix(v.dtype), "(", v.name, "_data, ", v.name, "_at, ", result_text(v), ");\n");
}

std::string quads_text(const std::vector<Variable>& operands, std::string_view code, int quads)
{
    std::string loads, each, inside, results, stores;
    for (const Variable& v : operands) {
        const std::string type = compute_type(v.dtype), place = concat(v.name, "_data + ", v.name, "_at");
        if (v.step != Step::dense) {
            loads += load_text(v);
            continue;
        }
        std::string elements;
        for (int q = 0; q < quads; ++q) {
            const std::string at = q ? concat(place, " + ", q, " * ahead") : place;
            if (v.output) {
                stores += concat("    store_quad_", suffix(v.dtype), "(", at, ", (quad_", suffix(v.dtype), ")(");
                for (int e = 4 * q; e < 4 * q + 4; ++e)
                    stores += concat(v.name, "_each[", e, e % 4 == 3 ? "]));\n" : "], ");
                continue;
            }
            const std::string name = concat(v.name, "_quad", q);
            loads += concat("    const quad_", suffix(v.dtype), " ", name, " = load_quad_", suffix(v.dtype), "(", at,
                            ");\n");
            for (const char* part : {".x, ", ".y, ", ".z, ", ".w, "})
                elements += name + part;
        }
        if (v.output) {
            each += concat("    ", type, " ", v.name, "_each[", 4 * quads, "];\n");
            inside += concat("        typeof_", v.name, " ", v.name, ";\n");
            results += concat("        ", v.name, "_each[each] = ", result_text(v), ";\n");
        } else {
            each += concat("    const ", type, " ", v.name, "_each[] = {", elements, "};\n");
            inside += concat("        const ", compute_type(v.type), " ", v.name, " = ",
                             convert_text(v.name + "_each[each]", v.dtype, v.type), ";\n");
        }
    }
    return concat(loads, each, "#pragma unroll\n    for (int each = 0; each < ", 4 * quads, "; ++each) {\n", inside,
                  "        ", code, "\n", results, "    }\n", stores);
}

std::string fours_text(const std::vector<Variable>& operands, std::string_view code)
{
    std::string loads, inside, stores;
    for (const Variable& v : operands) {
        const std::string type = compute_type(v.dtype);
        if (v.step != Step::dense && v.step != Step::strided) {
            loads += load_text(v);
        } else if (v.output) {
            loads += concat("    ", type, " ", v.name, "_each[4];\n");
            inside += concat("        typeof_", v.name, " ", v.name, ";\n");
            stores += concat("        store_", suffix(v.dtype), "(", v.name, "_data, ", v.name, "_at + each * ahead, ",
                             v.name, "_each[each]);\n");
        } else {
            const std::string step = v.step == Step::strided ? v.name + "_step" : "ahead";
            loads += concat("    ", type, " ", v.name, "_each[4];\n#pragma unroll\n    for (int each = 0; each < 4; "
                            "++each)\n        ", v.name, "_each[each] = load_", suffix(v.dtype), "(", v.name,
                            "_data, ", v.name, "_at + (each * ahead < room ? each * ", step, " : 0));\n");
            inside += concat("        const ", compute_type(v.type), " ", v.name, " = ",
                             convert_text(v.name + "_each[each]", v.dtype, v.type), ";\n");
        }
    }
    std::string results;
    for (const Variable& v : operands)
        if (v.output)
            results += concat("        ", v.name, "_each[each] = ", result_text(v), ";\n");
    const char* each = "#pragma unroll\n    for (int each = 0; each < 4; ++each) {\n";
    return concat(loads, each, inside, "        ", code, "\n", results, "    }\n", each,
                  "        if (each * ahead >= room)\n            break;\n", stores, "    }\n");
}

std::string typedef_text(const std::vector<Variable>& operands, const std::vector<Number>& numbers)
{
    std::string text;
    for (const Variable& v : operands)
        text += concat("typedef ", compute_type(v.type), " typeof_", v.name, ";\n");
    for (const Number& n : numbers)
        text += concat("typedef ", compute_type(n.type), " typeof_", n.name, ";\n");
    return text;
}

std::string index_text(bool wide)
{
    return concat(wide ? "#define WIDE_INDEX\ntypedef ulong index_t;\n" : "typedef uint index_t;\n",
                  "#ifdef CLPRIM_DEVICE_CPU\ntypedef ulong offset_t;\n#else\ntypedef index_t offset_t;\n#endif\n");
}

Accepts class_of(DataType type)
{
    return is_complex(type)              ? complex_type
           : is_floating_point(type)     ? floating
           : type == DataType::boolean   ? boolean_type
                                         : integral;
}

DataType variable_type(Result result, DataType common)
{
    switch (result) {
    case Result::predicate: return DataType::int32;
    case Result::real: return real_type(common);
    case Result::index: return DataType::int64;
    default: return common;
    }
}

void require_supported(const Variable& v, const Device& device, const char* operation)
{
    require<NotSupported>(device.fp64 || (!has_double(v.dtype) && !has_double(v.type)), operation, ": the device ",
                          device.name, " has no float64");
}

std::string include_text(std::string_view path) { return concat("#include \"", path, "\"\n"); }

const std::string& intern(std::string text)
{
    static std::mutex mutex;
    static auto* texts = new std::set<std::string>;
    std::lock_guard lock(mutex);
    return *texts->insert(std::move(text)).first;
}

}  // namespace clprim
