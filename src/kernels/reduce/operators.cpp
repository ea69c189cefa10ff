// The table of reductions. A row is the whole definition of an operator: see ReduceRow.
#include <clprim/reduce.hpp>

#include <unordered_map>

namespace clprim {
namespace {

constexpr Result common = Result::common;
constexpr Result real = Result::real;
constexpr Result predicate = Result::predicate;
constexpr Result position = Result::index;

// Accumulators that several rows share.
constexpr ReduceCode sum_code = {"T sum;", "s.sum = (T)0;", "s.sum += x0;", "s.sum += other.sum;", "y0 = s.sum;"};

constexpr ReduceCode with_finish(ReduceCode code, std::string_view finish)
{
    code.finish = finish;
    return code;
}

constexpr ReduceCode norm_code(std::string_view step, std::string_view finish)
{
    return {"R sum;", "s.sum = 0;", step, "s.sum += other.sum;", finish};
}

// Welford's update and Chan's merge of mean and sum of squared deviations (Chan, Golub, LeVeque, 1979).
constexpr ReduceCode moments_code = {
    "T mean; R squares, count;", "s.mean = (T)0; s.squares = 0; s.count = 0;",
    "T d = x0 - s.mean; s.count += 1; s.mean += d / s.count; s.squares += inner(d, x0 - s.mean);",
    "R n = s.count + other.count, part = n > 0 ? other.count / n : 0; T d = other.mean - s.mean;"
    " s.mean += d * part; s.squares += other.squares + inner(d, d) * s.count * part; s.count = n;",
    "y0 = s.squares / fmax(s.count - w0, (R)0);"};

// An extreme on CPUs: comparing it with NaN takes one instruction less for being forgotten, which is remembered apart.
#define TAKE(extreme, sign, with) "s." extreme " = " with " " sign " s." extreme " ? " with " : s." extreme ";"
#define TAKE_NAN(with) " s.nan = " with " != " with " ? " with " : s.nan;"
#define UNLESS_NAN(extreme) " = s.nan != s.nan ? s.nan : s." extreme ";"
#define CPU_EXTREME_CODE(sign, start)                                                                                  \
    {"T value, nan;", "s.value = " start "; s.nan = (T)0;", TAKE("value", sign, "x0") TAKE_NAN("x0"),                  \
     TAKE("value", sign, "other.value") TAKE_NAN("other.nan"), "y0" UNLESS_NAN("value")}

// The extreme and where it is; the first of equals, and the first NaN before everything.
constexpr std::string_view extreme_state = "T value; index_t index;";
constexpr std::string_view extreme_finish = "y0 = s.value; y1 = s.index;";
#define EXTREME_CODE(less, start, finish)                                                                              \
    {extreme_state, "s.value = " start "; s.index = ~(index_t)0;",                                                     \
     "bool take = (s.index == ~(index_t)0) | (s.value " less                                                           \
     " x0) | ((x0 != x0) & (s.value == s.value)); s.value = take ? x0 : s.value; s.index = take ? index : s.index;",   \
     "bool nan = s.value != s.value, other_nan = other.value != other.value;"                                          \
     " bool same = nan ? other_nan : s.value == other.value;"                                                          \
     " if (other.index != ~(index_t)0 && (s.index == ~(index_t)0 || (same ? other.index < s.index"                     \
     " : !nan && (other_nan || s.value " less " other.value)))) s = other;",                                           \
     finish}

// The same, but the last of equals and the last NaN.
#define LAST_EXTREME_CODE(less, start)                                                                                 \
    {extreme_state, "s.value = " start "; s.index = ~(index_t)0;",                                                     \
     "bool take = (s.index == ~(index_t)0) | (s.value " less "= x0) | (x0 != x0);"                                     \
     " s.value = take ? x0 : s.value; s.index = take ? index : s.index;",                                              \
     "bool nan = s.value != s.value, other_nan = other.value != other.value;"                                          \
     " bool same = nan ? other_nan : s.value == other.value;"                                                          \
     " if (other.index != ~(index_t)0 && (s.index == ~(index_t)0 || (same ? other.index > s.index"                     \
     " : !nan && (other_nan || s.value " less " other.value)))) s = other;",                                           \
     "y0 = s.index;"}

// Sum and mean of an elementwise loss of x0 and the target x1; `term` is its value.
#define LOSS_ROWS(name, term, text)                                                                                    \
    {name "_sum",   {"T sum;", "s.sum = 0;", term " s.sum += v;", "s.sum += other.sum;", "y0 = s.sum;"},               \
     floating,      {},                                                                                                \
     false,         nullptr,                                                                                           \
     "sum of " text},                                                                                                  \
    {                                                                                                                  \
        name "_mean", {"T sum;", "s.sum = 0;", term " s.sum += v;", "s.sum += other.sum;", "y0 = s.sum / (R)count;"},  \
            floating, {}, false, nullptr, "mean of " text                                                              \
    }

constexpr const char* outside_of_unit = "all elements of input should be between 0 and 1, and those of target";

// Times a factor: a weight may be no number itself, which is no error. Not bool: a structure with one lies in private
// memory on Intel's GPUs.
#define CROSS_ENTROPIES(factor, finish)                                                                                \
    {"T sum; int bad;", "s.sum = 0; s.bad = 0;",                                                                       \
     "s.bad |= !(x0 >= 0 && x0 <= 1 && x1 >= 0 && x1 <= 1);"                                                           \
     " s.sum += ((x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * clamped_log(x0))" factor ";",                             \
     "s.sum += other.sum; s.bad |= other.bad;",                                                                        \
     finish " if (s.bad) clprim_value_error(errors, operator_code);"}

const ReduceRow rows[] = {
    {"sum", sum_code, anything, {}, false, "ReduceSum", "sum"},
    {"mean", with_finish(sum_code, "y0 = s.sum / (R)count;"), fractions, {}, false, "ReduceMean", "arithmetic mean"},
    {"mean_integer",
     with_finish(sum_code, "y0 = count ? s.sum / (T)count : (T)0;"),
     integral,
     {},
     false,
     nullptr,
     "sum / count, rounded towards zero"},
    {"nansum",
     {"T sum;", "s.sum = 0;", "s.sum += x0 != x0 ? (T)0 : x0;", "s.sum += other.sum;", "y0 = s.sum;"},
     any_real,
     {},
     false,
     nullptr,
     "sum without NaN"},
    {"hash_tensor",
     {"ulong bits;", "s.bits = 0;", "s.bits ^= wide_bits(x0);", "s.bits ^= other.bits;", "y0 = (long)s.bits;"},
     any_real,
     {position},
     false,
     nullptr,
     "exclusive or of the bits of all elements, each widened to 64"},
    {"hash_float16",
     {"ulong bits;", "s.bits = 0;", "s.bits ^= wide_bits_of_float16(x0);", "s.bits ^= other.bits;",
      "y0 = (long)s.bits;"},
     integral,
     {position},
     false,
     nullptr,
     "hash_tensor of the bits of float16"},
    {"prod",
     {"T product;", "s.product = T_ONE;", "s.product = product(s.product, x0);",
      "s.product = product(s.product, other.product);", "y0 = s.product;"},
     anything,
     {},
     false,
     "ReduceProd",
     "product"},
    // Elements stand first in maximum and minimum, which look there for NaN: the accumulator is compared once.
    {"amax",
     {"T value;", "s.value = T_LOWEST;", "s.value = maximum(x0, s.value);", "s.value = maximum(s.value, other.value);",
      "y0 = s.value;"},
     any_real,
     {},
     false,
     "ReduceMax",
     "largest, NaN if one is NaN",
     nullptr,
     CPU_EXTREME_CODE(">", "T_LOWEST")},
    {"amin",
     {"T value;", "s.value = T_HIGHEST;", "s.value = minimum(x0, s.value);", "s.value = minimum(s.value, other.value);",
      "y0 = s.value;"},
     any_real,
     {},
     false,
     "ReduceMin",
     "smallest, NaN if one is NaN",
     nullptr,
     CPU_EXTREME_CODE("<", "T_HIGHEST")},
    {"aminmax",
     {"T low, high;", "s.low = T_HIGHEST; s.high = T_LOWEST;",
      "s.low = minimum(x0, s.low); s.high = maximum(x0, s.high);",
      "s.low = minimum(s.low, other.low); s.high = maximum(s.high, other.high);", "y0 = s.low; y1 = s.high;"},
     any_real,
     {},
     false,
     nullptr,
     "smallest and largest",
     nullptr,
     {"T low, high, nan;", "s.low = T_HIGHEST; s.high = T_LOWEST; s.nan = (T)0;",
      TAKE("low", "<", "x0") TAKE("high", ">", "x0") TAKE_NAN("x0"),
      TAKE("low", "<", "other.low") TAKE("high", ">", "other.high") TAKE_NAN("other.nan"),
      "y0" UNLESS_NAN("low") " y1" UNLESS_NAN("high")}},
    {"max",
     EXTREME_CODE("<", "T_LOWEST", extreme_finish),
     any_real,
     {common, position},
     true,
     nullptr,
     "largest and its first position"},
    {"min",
     EXTREME_CODE(">", "T_HIGHEST", extreme_finish),
     any_real,
     {common, position},
     true,
     nullptr,
     "smallest and its first position"},
    {"argmax",
     EXTREME_CODE("<", "T_LOWEST", "y0 = s.index;"),
     any_real,
     {position, common},
     true,
     "ArgMax",
     "first position of the largest"},
    {"argmin",
     EXTREME_CODE(">", "T_HIGHEST", "y0 = s.index;"),
     any_real,
     {position, common},
     true,
     "ArgMin",
     "first position of the smallest"},
    {"argmax_last",
     LAST_EXTREME_CODE("<", "T_LOWEST"),
     any_real,
     {position, common},
     true,
     nullptr,
     "last position of the largest"},
    {"argmin_last",
     LAST_EXTREME_CODE(">", "T_HIGHEST"),
     any_real,
     {position, common},
     true,
     nullptr,
     "last position of the smallest"},
    {"any",
     {"int any;", "s.any = 0;", "s.any |= nonzero(x0);", "s.any |= other.any;", "y0 = s.any;"},
     anything,
     {predicate, common},
     false,
     nullptr,
     "one is not zero"},
    {"all",
     {"int all;", "s.all = 1;", "s.all &= nonzero(x0);", "s.all &= other.all;", "y0 = s.all;"},
     anything,
     {predicate, common},
     false,
     nullptr,
     "none is zero"},
    {"count_nonzero",
     {"long count;", "s.count = 0;", "s.count += nonzero(x0);", "s.count += other.count;", "y0 = s.count;"},
     anything,
     {position, common},
     false,
     nullptr,
     "how many are not zero"},
    {"var", moments_code, fractions, {real, common}, false, nullptr, "variance, w0 = correction"},
    {"std",
     with_finish(moments_code, "y0 = sqrt(s.squares / fmax(s.count - w0, (R)0));"),
     fractions,
     {real, common},
     false,
     nullptr,
     "standard deviation, w0 = correction"},
    {"var_mean",
     with_finish(moments_code, "y0 = s.squares / fmax(s.count - w0, (R)0); y1 = s.count > 0 ? s.mean : (T)NAN;"),
     fractions,
     {real, common},
     false,
     nullptr,
     "variance and mean"},
    {"std_mean",
     with_finish(moments_code, "y0 = sqrt(s.squares / fmax(s.count - w0, (R)0)); y1 = s.count > 0 ? s.mean : (T)NAN;"),
     fractions,
     {real, common},
     false,
     nullptr,
     "standard deviation and mean"},
    {"norm0",
     norm_code("s.sum += nonzero(x0);", "y0 = s.sum;"),
     fractions,
     {real, common},
     false,
     nullptr,
     "how many are not zero"},
    {"norm1",
     norm_code("s.sum += size_of(x0);", "y0 = s.sum;"),
     fractions,
     {real, common},
     false,
     "ReduceL1",
     "sum of absolute values"},
    {"norm1_integer",
     norm_code("s.sum += magnitude(x0);", "y0 = s.sum;"),
     integers,
     {},
     false,
     nullptr,
     "sum of absolute values of integers"},
    {"norm2",
     norm_code("s.sum += square_of(x0);", "y0 = sqrt(s.sum);"),
     fractions,
     {real, common},
     false,
     "ReduceL2",
     "square root of the sum of squares"},
    {"norm_p",
     norm_code("s.sum += pow(size_of(x0), w0);", "y0 = pow(s.sum, 1 / w0);"),
     fractions,
     {real, common},
     false,
     nullptr,
     "p-norm, w0 = p"},
    {"norm_inf",
     {"R value;", "s.value = 0;", "R v = size_of(x0); s.value = s.value > v || s.value != s.value ? s.value : v;",
      "s.value = s.value > other.value || s.value != s.value ? s.value : other.value;", "y0 = s.value;"},
     fractions,
     {real, common},
     false,
     nullptr,
     "largest absolute value"},
    {"norm_neg_inf",
     {"R value;", "s.value = INFINITY;",
      "R v = size_of(x0); s.value = s.value < v || s.value != s.value ? s.value : v;",
      "s.value = s.value < other.value || s.value != s.value ? s.value : other.value;", "y0 = s.value;"},
     fractions,
     {real, common},
     false,
     nullptr,
     "smallest absolute value"},
    {"sum_of_squares",
     norm_code("s.sum += square_of(x0);", "y0 = s.sum;"),
     fractions,
     {real, common},
     false,
     "ReduceSumSquare",
     "sum of squares"},
    {"sum_of_squares_integer",
     norm_code("s.sum += x0 * x0;", "y0 = s.sum;"),
     integers,
     {},
     false,
     nullptr,
     "sum of squares of integers"},
    {"log_sum", with_finish(sum_code, "y0 = log(s.sum);"), floating, {}, false, "ReduceLogSum", "logarithm of the sum"},
    LOSS_ROWS("mse_loss", "T v = (x0 - x1) * (x0 - x1);", "squared differences"),
    LOSS_ROWS("smooth_l1_loss",
              "T d = fabs(x0 - x1), m = d < w0 ? d : w0, v = w0 > 0 ? m * (d - LIT(0.5) * m) / w0 : d;",
              "smooth L1 losses, w0 = beta"),
    LOSS_ROWS("huber_loss", "T d = fabs(x0 - x1), m = d < w0 ? d : w0, v = m * (d - LIT(0.5) * m);",
              "Huber losses, w0 = delta"),
    {"binary_cross_entropy_sum", CROSS_ENTROPIES("", "y0 = s.sum;"), floating, {}, false, nullptr,
     "sum of binary cross entropies", outside_of_unit},
    {"binary_cross_entropy_mean", CROSS_ENTROPIES("", "y0 = s.sum / (R)count;"), floating, {}, false, nullptr,
     "mean of binary cross entropies", outside_of_unit},
    {"binary_cross_entropy_weight_sum", CROSS_ENTROPIES(" * x2", "y0 = s.sum;"), floating, {}, false, nullptr,
     "sum of binary cross entropies times x2", outside_of_unit},
    {"binary_cross_entropy_weight_mean", CROSS_ENTROPIES(" * x2", "y0 = s.sum / (R)count;"), floating, {}, false,
     nullptr, "mean of binary cross entropies times x2", outside_of_unit},
    {"logsumexp",
     {"T top, sum;", "s.top = -INFINITY; s.sum = 0;",
      "if (x0 > s.top) { s.sum = s.sum * exp(s.top - x0) + 1; s.top = x0; }"
      " else s.sum += x0 == s.top ? (T)1 : exp(x0 - s.top);",
      "T top = fmax(s.top, other.top); s.sum = (s.top == top ? s.sum : s.sum * exp(s.top - top))"
      " + (other.top == top ? other.sum : other.sum * exp(other.top - top)); s.top = top;",
      "y0 = s.top + log(s.sum);"},
     floating,
     {},
     false,
     "ReduceLogSumExp",
     "log of the sum of exponentials"},
};

}  // namespace

std::span<const ReduceRow> reduce_rows() { return rows; }

const ReduceRow& reduce_row(std::string_view name)
{
    static const auto* by_name = [] {
        auto* map = new std::unordered_map<std::string_view, const ReduceRow*>;
        for (const ReduceRow& row : rows)
            map->emplace(row.name, &row);
        return map;
    }();
    auto found = by_name->find(name);
    require(found != by_name->end(), "there is no reduction ", name);
    return *found->second;
}

}  // namespace clprim
