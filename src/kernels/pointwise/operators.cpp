// The table of elementwise operators. A row is the whole definition of an operator: see PointwiseRow.
#include <clprim/pointwise.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace clprim {
namespace {

constexpr Result common = Result::common;
constexpr Result predicate = Result::predicate;
constexpr Result real = Result::real;

#define SPECIAL(name, code, doc) {name, code, nullptr, floating, common, 0, nullptr, doc, "kernels/pointwise/special.cl"}

const PointwiseRow rows[] = {
    // Arithmetic. w0 is PyTorch's alpha or value.
    {"add", "y0 = x0 + w0 * x1;", "y0 = x0 + cmul(w0, x1);", any_real, common, 0, "Add", "x0 + alpha * x1"},
    {"sub", "y0 = x0 - w0 * x1;", "y0 = x0 - cmul(w0, x1);", any_real, common, 0, "Sub", "x0 - alpha * x1"},
    {"mul", "y0 = x0 * x1;", "y0 = cmul(x0, x1);", any_real, common, 0, "Mul", "x0 * x1"},
    {"div", "y0 = x0 / x1;", "y0 = cdiv(x0, x1);", floating, common, 0, "Div", "x0 / x1, floating-point"},
    {"div_trunc", "y0 = divide_trunc(x0, x1);", nullptr, any_real, common, 0, nullptr, "x0 / x1 rounded towards zero"},
    {"div_floor", "y0 = divide_floor(x0, x1);", nullptr, any_real, common, 0, nullptr, "x0 / x1 rounded down"},
    {"remainder", "y0 = remainder_of(x0, x1);", nullptr, any_real, common, 0, "Mod", "remainder with the divisor's sign"},
    {"fmod", "y0 = fmod_of(x0, x1);", nullptr, any_real, common, 0, nullptr, "remainder with the dividend's sign"},
    {"floor_mod", "T r = remainder_of(x0, x1); y0 = r == 0 ? copysign((T)0, x1) : r;", nullptr, floating, common, 0, nullptr, "remainder with the divisor's sign, zeros too"},
    {"pow", "y0 = power(x0, x1);", "y0 = cpow(x0, x1);", any_real, common, 0, "Pow", "x0 to the power x1"},
    {"pow_scalar", "y0 = power(x0, w0);", "y0 = cpow(x0, w0);", any_real, common, 0, nullptr, "x to the power w0"},
    {"square", "y0 = x0 * x0;", "y0 = cmul(x0, x0);", any_real, common, 0, nullptr, "x squared"},
    {"cube", "y0 = x0 * x0 * x0;", "y0 = cmul(cmul(x0, x0), x0);", any_real, common, 0, nullptr, "x cubed"},
    {"neg", "y0 = -x0;", "y0 = -x0;", numbers, common, 0, "Neg", "-x"},
    {"reciprocal", "y0 = 1 / x0;", "y0 = cdiv(complex_of(1, 0), x0);", floating, common, 0, "Reciprocal", "1 / x"},
    {"addcmul", "y0 = x0 + w0 * x1 * x2;", "y0 = x0 + cmul(w0, cmul(x1, x2));", any_real, common, 0, nullptr, "x0 + value * x1 * x2"},
    {"addcdiv", "y0 = x0 + w0 * x1 / x2;", "y0 = x0 + cmul(w0, cdiv(x1, x2));", any_real, common, 0, nullptr, "x0 + value * x1 / x2"},
    {"difference_of_products", "y0 = x0 * x1 - x2 * x3;", "y0 = cmul(x0, x1) - cmul(x2, x3);", any_real, common, 0, nullptr, "x0 * x1 - x2 * x3"},
    {"lerp", "y0 = lerp(x0, x1, x2);", "y0 = x0 + cmul(x2, x1 - x0);", floating, common, 0, nullptr, "x0 + weight * (x1 - x0)"},
    {"lerp_scalar", "y0 = lerp(x0, x1, w0);", "y0 = x0 + cmul(w0, x1 - x0);", floating, common, 0, nullptr, "x0 + w0 * (x1 - x0)"},
    {"maximum", "y0 = maximum(x0, x1);", nullptr, any_real, common, 0, "Max", "the larger, NaN if one is NaN"},
    {"minimum", "y0 = minimum(x0, x1);", nullptr, any_real, common, 0, "Min", "the smaller, NaN if one is NaN"},
    {"fmax", "y0 = x0 > x1 || x1 != x1 ? x0 : x1;", nullptr, any_real, common, 0, nullptr, "the larger, ignoring NaN"},
    {"fmin", "y0 = x0 < x1 || x1 != x1 ? x0 : x1;", nullptr, any_real, common, 0, nullptr, "the smaller, ignoring NaN"},
    {"clamp", "y0 = clamp_to(x0, x1, x2);", nullptr, any_real, common, 0, "Clip", "within [x1, x2]"},
    {"clamp_scalar", "y0 = clamp_to(x0, w0, w1);", nullptr, any_real, common, 0, "Clip", "within [min, max]"},
    {"clamp_min_scalar", "y0 = maximum(x0, w0);", nullptr, any_real, common, 0, nullptr, "not below min"},
    {"clamp_max_scalar", "y0 = minimum(x0, w0);", nullptr, any_real, common, 0, nullptr, "not above max"},
    {"where", "y0 = x0 != 0 ? x1 : x2;", "y0 = x0 != 0 ? x1 : x2;", any_real, common, 1, "Where", "x1 where the condition holds, else x2"},

    // Signs, rounding, parts.
    {"abs", "y0 = fabs(x0);", "y0 = cabs(x0);", floating, real, 0, "Abs", "absolute value"},
    {"abs_integer", "y0 = magnitude(x0);", nullptr, integers, common, 0, nullptr, "absolute value of integers"},
    {"sign", "y0 = sign_of(x0);", nullptr, any_real, common, 0, "Sign", "-1, 0 or 1"},
    {"sgn", "y0 = sign_of(x0);", "y0 = csign(x0);", any_real, common, 0, nullptr, "sign; of a complex number x / |x|"},
    {"signbit", "y0 = signbit(x0);", nullptr, floating, predicate, 0, nullptr, "true for negative numbers and -0"},
    {"signbit_integer", "y0 = x0 < 0;", nullptr, integers, predicate, 0, nullptr, "true for negative integers"},
    {"angle", "y0 = isnan(x0) ? x0 : x0 < 0 ? LIT(3.14159265358979323846) : (T)0;", "y0 = carg(x0);", floating, real, 0, nullptr, "argument of a complex number"},
    {"conj_physical", "y0 = x0;", "y0 = conjugate(x0);", any_real, common, 0, nullptr, "complex conjugate"},
    {"complex", nullptr, "y0 = complex_of(x0, x1);", floating, common, 3, nullptr, "x0 + i x1"},
    {"polar", nullptr, "y0 = polar_of(x0, x1);", floating, common, 3, nullptr, "absolute value x0, angle x1"},
    {"floor", "y0 = floor(x0);", nullptr, floating, common, 0, "Floor", "rounded down"},
    {"ceil", "y0 = ceil(x0);", nullptr, floating, common, 0, "Ceil", "rounded up"},
    {"trunc", "y0 = trunc(x0);", nullptr, floating, common, 0, nullptr, "rounded towards zero"},
    {"round", "y0 = rint(x0);", nullptr, floating, common, 0, "Round", "to the nearest, ties to even"},
    {"round_decimals", "y0 = rint(x0 * w0) / w0;", nullptr, floating, common, 0, nullptr, "to a multiple of 1 / w0"},
    {"round_tens", "y0 = rint(x0 / w0) * w0;", nullptr, floating, common, 0, nullptr, "to a multiple of w0"},
    {"frac", "y0 = fractional(x0);", nullptr, floating, common, 0, nullptr, "x - trunc(x)"},
    {"copy", "y0 = x0;", "y0 = x0;", any_real, common, 0, "Identity", "x"},

    // Comparisons and logic.
    {"eq", "y0 = x0 == x1;", "y0 = x0.x == x1.x && x0.y == x1.y;", any_real, predicate, 0, "Equal", "x0 == x1"},
    {"ne", "y0 = x0 != x1;", "y0 = x0.x != x1.x || x0.y != x1.y;", any_real, predicate, 0, nullptr, "x0 != x1"},
    {"lt", "y0 = x0 < x1;", nullptr, any_real, predicate, 0, "Less", "x0 < x1"},
    {"le", "y0 = x0 <= x1;", nullptr, any_real, predicate, 0, "LessOrEqual", "x0 <= x1"},
    {"gt", "y0 = x0 > x1;", nullptr, any_real, predicate, 0, "Greater", "x0 > x1"},
    {"ge", "y0 = x0 >= x1;", nullptr, any_real, predicate, 0, "GreaterOrEqual", "x0 >= x1"},
    {"logical_and", "y0 = x0 != 0 && x1 != 0;", "y0 = any(x0 != 0) && any(x1 != 0);", any_real, predicate, 0, "And", "both not zero"},
    {"logical_or", "y0 = x0 != 0 || x1 != 0;", "y0 = any(x0 != 0) || any(x1 != 0);", any_real, predicate, 0, "Or", "one not zero"},
    {"logical_xor", "y0 = (x0 != 0) != (x1 != 0);", "y0 = any(x0 != 0) != any(x1 != 0);", any_real, predicate, 0, "Xor", "exactly one not zero"},
    {"logical_not", "y0 = x0 == 0;", "y0 = !any(x0 != 0);", any_real, predicate, 0, "Not", "zero"},
    {"isnan", "y0 = x0 != x0;", "y0 = x0.x != x0.x || x0.y != x0.y;", any_real, predicate, 0, "IsNaN", "not a number"},
    {"isposinf", "y0 = x0 == INFINITY;", nullptr, floating, predicate, 0, nullptr, "+infinity"},
    {"isneginf", "y0 = x0 == -INFINITY;", nullptr, floating, predicate, 0, nullptr, "-infinity"},
    {"bitwise_and", "y0 = x0 & x1;", nullptr, integers, common, 0, "BitwiseAnd", "x0 & x1"},
    {"bitwise_or", "y0 = x0 | x1;", nullptr, integers, common, 0, "BitwiseOr", "x0 | x1"},
    {"bitwise_xor", "y0 = x0 ^ x1;", nullptr, integers, common, 0, "BitwiseXor", "x0 ^ x1"},
    {"bitwise_not", "y0 = invert(x0);", nullptr, integers, common, 0, "BitwiseNot", "~x"},
    {"bitwise_left_shift", "y0 = shift_left(x0, x1);", nullptr, integral, common, 0, nullptr, "x0 << x1"},
    {"bitwise_right_shift", "y0 = shift_right(x0, x1);", nullptr, integral, common, 0, nullptr, "x0 >> x1, arithmetic"},
    {"gcd", "y0 = greatest_common_divisor(x0, x1);", nullptr, integers, common, 0, nullptr, "greatest common divisor"},
    {"lcm", "y0 = least_common_multiple(x0, x1);", nullptr, integers, common, 0, nullptr, "least common multiple"},
    {"heaviside", "y0 = x0 == 0 ? x1 : (T)(x0 > 0);", nullptr, any_real, common, 0, nullptr, "0, x1 at 0, 1"},

    // Exponentials, roots, logarithms.
    {"exp", "y0 = exp(x0);", "y0 = cexp(x0);", floating, common, 0, "Exp", "e^x"},
    {"exp2", "y0 = exp2(x0);", "y0 = cexp(x0 * LIT(0.69314718055994530942));", floating, common, 0, nullptr, "2^x"},
    {"expm1", "y0 = expm1(x0);", "y0 = complex_of(expm1(x0.x) * cos(x0.y) - 2 * sin(x0.y / 2) * sin(x0.y / 2), exp(x0.x) * sin(x0.y));", floating, common, 0, nullptr, "e^x - 1"},
    {"log", "y0 = log(x0);", "y0 = clog(x0);", floating, common, 0, "Log", "natural logarithm"},
    {"log2", "y0 = log2(x0);", "y0 = clog(x0) * LIT(1.44269504088896340736);", floating, common, 0, nullptr, "logarithm to base 2"},
    {"log10", "y0 = log10(x0);", "y0 = clog(x0) * LIT(0.43429448190325182765);", floating, common, 0, nullptr, "logarithm to base 10"},
    {"log1p", "y0 = log1p(x0);", "y0 = clog1p(x0);", floating, common, 0, nullptr, "log(1 + x)"},
    {"sqrt", "y0 = sqrt(x0);", "y0 = csqrt(x0);", floating, common, 0, "Sqrt", "square root"},
    {"rsqrt", "y0 = 1 / sqrt(x0);", "y0 = cdiv(complex_of(1, 0), csqrt(x0));", floating, common, 0, nullptr, "1 / sqrt(x)"},
    {"xlogy", "y0 = x_log_y(x0, x1);", nullptr, floating, common, 0, nullptr, "x0 log(x1), 0 where x0 is 0"},
    {"special_xlog1py", "y0 = x_log1p_y(x0, x1);", nullptr, floating, common, 0, nullptr, "x0 log(1 + x1), 0 where x0 is 0"},
    {"logaddexp", "y0 = log_add_exp(x0, x1);", "y0 = clog_add_exp(x0, x1);", floating, common, 0, nullptr, "log(e^x0 + e^x1)"},
    {"logaddexp2", "y0 = log_add_exp2(x0, x1);", nullptr, floating, common, 0, nullptr, "log2(2^x0 + 2^x1)"},

    // Trigonometric and hyperbolic.
    {"sin", "y0 = sin(x0);", "y0 = csin(x0);", floating, common, 0, "Sin", "sine"},
    {"cos", "y0 = cos(x0);", "y0 = ccos(x0);", floating, common, 0, "Cos", "cosine"},
    {"tan", "y0 = tan(x0);", "y0 = ctan(x0);", floating, common, 0, "Tan", "tangent"},
    {"asin", "y0 = asin(x0);", "y0 = casin(x0);", floating, common, 0, "Asin", "arcsine"},
    {"acos", "y0 = acos(x0);", "y0 = cacos(x0);", floating, common, 0, "Acos", "arccosine"},
    {"atan", "y0 = atan(x0);", "y0 = catan(x0);", floating, common, 0, "Atan", "arctangent"},
    {"sinh", "y0 = sinh(x0);", "y0 = csinh(x0);", floating, common, 0, "Sinh", "hyperbolic sine"},
    {"cosh", "y0 = cosh(x0);", "y0 = ccosh(x0);", floating, common, 0, "Cosh", "hyperbolic cosine"},
    {"tanh", "y0 = tanh_of(x0);", "y0 = ctanh(x0);", floating, common, 0, "Tanh", "hyperbolic tangent"},
    {"asinh", "y0 = asinh(x0);", "y0 = casinh(x0);", floating, common, 0, "Asinh", "inverse hyperbolic sine"},
    {"acosh", "y0 = acosh(x0);", "y0 = cacosh(x0);", floating, common, 0, "Acosh", "inverse hyperbolic cosine"},
    {"atanh", "y0 = atanh(x0);", "y0 = catanh(x0);", floating, common, 0, "Atanh", "inverse hyperbolic tangent"},
    {"atan2", "y0 = atan2(x0, x1);", nullptr, floating, common, 0, nullptr, "angle of (x1, x0)"},
    {"hypot", "y0 = hypot(x0, x1);", nullptr, floating, common, 0, nullptr, "sqrt(x0^2 + x1^2)"},
    {"copysign", "y0 = copysign(x0, x1);", nullptr, floating, common, 0, nullptr, "x0 with the sign of x1"},
    {"nextafter", "y0 = nextafter(x0, x1);", nullptr, floating, common, 0, nullptr, "the next number from x0 towards x1"},
    {"sinc", "y0 = sinc(x0);", "T p = x0 * LIT(3.14159265358979323846); y0 = x0.x == 0 && x0.y == 0 ? complex_of(1, 0) : cdiv(csin(p), p);", floating, common, 0, nullptr, "sin(pi x) / (pi x)"},
    {"erf", "y0 = erf(x0);", nullptr, floating, common, 0, "Erf", "error function"},
    {"erf_integer", "y0 = (T)erf((float)x0);", nullptr, integral, common, 0, nullptr, "error function, rounded towards zero"},
    {"erfc", "y0 = erfc(x0);", nullptr, floating, common, 0, nullptr, "1 - erf(x)"},
    {"nan_to_num", "y0 = isnan(x0) ? w0 : x0 == INFINITY ? w1 : x0 == -INFINITY ? w2 : x0;",
     "y0 = complex_of(isnan(x0.x) ? w0.x : x0.x == INFINITY ? w1.x : x0.x == -INFINITY ? w2.x : x0.x, isnan(x0.y) ? w0.x : x0.y == INFINITY ? w1.x : x0.y == -INFINITY ? w2.x : x0.y);", floating, common, 0, nullptr, "NaN and infinities replaced"},
    {"logit", "T p = x0; y0 = log(p / (1 - p));", nullptr, floating, common, 0, nullptr, "log(x / (1 - x))"},
    {"logit_eps", "T p = x0 < w0 ? w0 : x0 > 1 - w0 ? 1 - w0 : x0; y0 = log(p / (1 - p));", nullptr, floating, common, 0, nullptr, "logit of x within [eps, 1 - eps]"},
    {"logit_backward", "y0 = w0 < 0 ? (x1 < 0 || x1 > 1 ? (T)NAN : x0 / (x1 * (1 - x1))) : (x1 < w0 || x1 > 1 - w0 ? (T)0 : x0 / (x1 * (1 - x1)));", nullptr, floating, common, 0, nullptr, "gradient of logit"},

    // Special functions.
    {"lgamma", "y0 = lgamma(x0);", nullptr, floating, common, 0, nullptr, "logarithm of the gamma function"},
    {"frexp", "int e; y0 = frexp(x0, &e); y1 = isfinite(x0) ? e : 0;", nullptr, floating, common, 0, nullptr, "mantissa and exponent"},
    SPECIAL("digamma", "y0 = digamma_of(x0);", "derivative of lgamma"),
    SPECIAL("polygamma", "y0 = polygamma_of(w0, x0);", "derivative of digamma, n times"),
    SPECIAL("special_zeta", "y0 = zeta_of(x0, x1);", "Hurwitz zeta function"),
    SPECIAL("erfinv", "y0 = erfinv_of(x0);", "inverse of erf"),
    SPECIAL("special_erfcx", "y0 = erfcx_of(x0);", "exp(x^2) erfc(x)"),
    SPECIAL("special_ndtri", "y0 = ndtri_of(x0);", "quantile of the normal distribution"),
    SPECIAL("special_log_ndtr", "y0 = log_ndtr_of(x0);", "logarithm of the normal distribution"),
    SPECIAL("special_entr", "y0 = entropy_of(x0);", "-x log(x)"),
    SPECIAL("i0", "y0 = bessel_i(0, x0);", "modified Bessel function I0"),
    SPECIAL("special_i0e", "y0 = scaled_bessel_i(0, x0);", "exp(-|x|) I0(x)"),
    SPECIAL("special_i1", "y0 = bessel_i(1, x0);", "modified Bessel function I1"),
    SPECIAL("special_i1e", "y0 = scaled_bessel_i(1, x0);", "exp(-|x|) I1(x)"),
    SPECIAL("special_modified_bessel_i0", "y0 = bessel_i(0, x0);", "modified Bessel function I0"),
    SPECIAL("special_modified_bessel_i1", "y0 = bessel_i(1, x0);", "modified Bessel function I1"),
    SPECIAL("special_modified_bessel_k0", "y0 = bessel_k(0, x0);", "modified Bessel function K0"),
    SPECIAL("special_modified_bessel_k1", "y0 = bessel_k(1, x0);", "modified Bessel function K1"),
    SPECIAL("special_scaled_modified_bessel_k0", "y0 = scaled_bessel_k(0, x0);", "exp(x) K0(x)"),
    SPECIAL("special_scaled_modified_bessel_k1", "y0 = scaled_bessel_k(1, x0);", "exp(x) K1(x)"),
    SPECIAL("special_bessel_j0", "y0 = bessel_j(0, x0);", "Bessel function J0"),
    SPECIAL("special_bessel_j1", "y0 = bessel_j(1, x0);", "Bessel function J1"),
    SPECIAL("special_bessel_y0", "y0 = bessel_y(0, x0);", "Bessel function Y0"),
    SPECIAL("special_bessel_y1", "y0 = bessel_y(1, x0);", "Bessel function Y1"),
    SPECIAL("special_spherical_bessel_j0", "y0 = spherical_bessel_j0_of(x0);", "sin(x) / x"),
    SPECIAL("igamma", "y0 = gamma_p(x0, x1);", "regularised lower incomplete gamma function"),
    SPECIAL("igammac", "y0 = gamma_q(x0, x1);", "regularised upper incomplete gamma function"),
    SPECIAL("special_chebyshev_polynomial_t", "y0 = chebyshev(x1, x0, x0);", "Chebyshev polynomial, first kind"),
    SPECIAL("special_chebyshev_polynomial_u", "y0 = chebyshev(x1, x0, 2 * x0);", "Chebyshev polynomial, second kind"),
    SPECIAL("special_chebyshev_polynomial_v", "y0 = chebyshev(x1, x0, 2 * x0 - 1);", "Chebyshev polynomial, third kind"),
    SPECIAL("special_chebyshev_polynomial_w", "y0 = chebyshev(x1, x0, 2 * x0 + 1);", "Chebyshev polynomial, fourth kind"),
    SPECIAL("special_shifted_chebyshev_polynomial_t", "T u = 2 * x0 - 1; y0 = chebyshev(x1, u, u);", "of 2 x - 1"),
    SPECIAL("special_shifted_chebyshev_polynomial_u", "T u = 2 * x0 - 1; y0 = chebyshev(x1, u, 2 * u);", "of 2 x - 1"),
    SPECIAL("special_shifted_chebyshev_polynomial_v", "T u = 2 * x0 - 1; y0 = chebyshev(x1, u, 2 * u - 1);", "of 2 x - 1"),
    SPECIAL("special_shifted_chebyshev_polynomial_w", "T u = 2 * x0 - 1; y0 = chebyshev(x1, u, 2 * u + 1);", "of 2 x - 1"),
    SPECIAL("special_hermite_polynomial_h", "y0 = hermite_h(x1, x0);", "physicists' Hermite polynomial"),
    SPECIAL("special_hermite_polynomial_he", "y0 = hermite_he(x1, x0);", "probabilists' Hermite polynomial"),
    SPECIAL("special_laguerre_polynomial_l", "y0 = laguerre(x1, x0);", "Laguerre polynomial"),
    SPECIAL("special_legendre_polynomial_p", "y0 = legendre(x1, x0);", "Legendre polynomial"),

    // Activations. Gradients: x0 is the gradient of the result.
    {"relu", "y0 = maximum(x0, (T)0);", nullptr, any_real, common, 0, "Relu", "max(x, 0)"},
    {"sigmoid", "y0 = sigmoid(x0);", "y0 = cdiv(complex_of(1, 0), complex_of(1, 0) + cexp(-x0));", floating, common, 0, "Sigmoid", "1 / (1 + e^-x)"},
    {"sigmoid_backward", "y0 = x0 * (1 - x1) * x1;", "y0 = cmul(x0, conjugate(cmul(complex_of(1, 0) - x1, x1)));", floating, common, 0, nullptr, "gradient, x1 is the result"},
    {"tanh_backward", "y0 = x0 * (1 - x1 * x1);", "y0 = cmul(x0, conjugate(complex_of(1, 0) - cmul(x1, x1)));", floating, common, 0, nullptr, "gradient, x1 is the result"},
    {"threshold", "y0 = x0 <= w0 ? w1 : x0;", nullptr, any_real, common, 0, nullptr, "x above the threshold, else value"},
    {"threshold_backward", "y0 = x1 <= w0 ? (T)0 : x0;", nullptr, any_real, common, 0, nullptr, "gradient, x1 is the input or result"},
    {"gelu", "y0 = gelu(x0);", nullptr, floating, common, 0, "Gelu", "x Phi(x)"},
    {"gelu_tanh", "y0 = gelu_tanh(x0);", nullptr, floating, common, 0, nullptr, "gelu by tanh"},
    {"gelu_backward", "y0 = gelu_gradient(x0, x1);", nullptr, floating, common, 0, nullptr, "gradient"},
    {"gelu_tanh_backward", "y0 = gelu_tanh_gradient(x0, x1);", nullptr, floating, common, 0, nullptr, "gradient"},
    {"silu", "y0 = x0 / (1 + exp(-x0));", "y0 = cdiv(x0, complex_of(1, 0) + cexp(-x0));", floating, common, 0, nullptr, "x sigmoid(x)"},
    {"silu_backward", "T s = sigmoid(x1); y0 = x0 * s * (1 + x1 * (1 - s));", nullptr, floating, common, 0, nullptr, "gradient"},
    {"mish", "y0 = x0 * mish_tanh(x0);", nullptr, floating, common, 0, "Mish", "x tanh(softplus(x))"},
    {"mish_backward", "T s = sigmoid(x1), t = mish_tanh(x1); y0 = x0 * (t + x1 * s * (1 - t * t));", nullptr, floating, common, 0, nullptr, "gradient"},
    {"hardswish", "y0 = x0 * clamp_to(x0 + 3, (T)0, (T)6) / 6;", nullptr, floating, common, 0, "HardSwish", "x relu6(x + 3) / 6"},
    {"hardswish_backward", "y0 = x1 <= -3 ? (T)0 : x1 < 3 ? x0 * (x1 / 3 + LIT(0.5)) : x0;", nullptr, floating, common, 0, nullptr, "gradient"},
    {"hardsigmoid", "y0 = clamp_to(x0 + 3, (T)0, (T)6) / 6;", nullptr, floating, common, 0, "HardSigmoid", "relu6(x + 3) / 6"},
    {"hardsigmoid_backward", "y0 = x1 > -3 && x1 < 3 ? x0 / 6 : (T)0;", nullptr, floating, common, 0, nullptr, "gradient"},
    {"hardtanh_backward", "y0 = x1 <= w0 || x1 >= w1 ? (T)0 : x0;", nullptr, any_real, common, 0, nullptr, "gradient"},
    {"hardshrink", "y0 = x0 >= -w0 && x0 <= w0 ? (T)0 : x0;", nullptr, floating, common, 0, nullptr, "x outside [-lambda, lambda], else 0"},
    {"softshrink", "y0 = x0 > w0 ? x0 - w0 : x0 < -w0 ? x0 + w0 : x0 * 0;", nullptr, floating, common, 0, "Shrink", "x moved by lambda towards 0"},
    {"shrink_backward", "y0 = x1 >= -w0 && x1 <= w0 ? (T)0 : x0;", nullptr, floating, common, 0, nullptr, "gradient of hardshrink and softshrink"},
    {"leaky_relu", "y0 = x0 > 0 ? x0 : x0 * w0;", nullptr, floating, common, 0, "LeakyRelu", "x, negative_slope x below 0"},
    {"leaky_relu_backward", "y0 = x1 > 0 ? x0 : x0 * w0;", nullptr, floating, common, 0, nullptr, "gradient"},
    {"elu", "y0 = x0 < 0 ? expm1(x0 * w2) * w0 * w1 : x0 * w1;", nullptr, floating, common, 0, "Elu", "scale x, scale alpha (e^(input_scale x) - 1) below 0"},
    {"elu_backward", "y0 = x1 <= 0 ? x0 * w2 * (w0 * w1) * exp(x1 * w2) : x0 * w1;", nullptr, floating, common, 0, nullptr, "gradient by the input"},
    {"elu_backward_result", "y0 = x1 <= 0 ? x0 * w2 * (x1 + w0 * w1) : x0 * w1;", nullptr, floating, common, 0, nullptr, "gradient by the result"},
    {"celu", "y0 = x0 < 0 ? expm1(x0 / w0) * w0 : x0;", nullptr, floating, common, 0, "Celu", "x, alpha (e^(x / alpha) - 1) below 0"},
    {"clamped_affine", "y0 = clamp_to(w0 * x0 + w1, (T)0, (T)1);", nullptr, floating, common, 0, "HardSigmoid", "alpha x + beta within [0, 1]"},
    {"softsign", "y0 = x0 / (1 + fabs(x0));", nullptr, floating, common, 0, "Softsign", "x / (1 + |x|)"},
    {"shrink", "y0 = x0 > w1 ? x0 - w0 : x0 < -w1 ? x0 + w0 : (T)0;", nullptr, floating, common, 0, "Shrink", "x moved by bias towards 0, 0 within [-lambda, lambda]"},
    {"swish", "y0 = x0 / (1 + exp(-w0 * x0));", nullptr, floating, common, 0, "Swish", "x sigmoid(alpha x)"},
    {"swiglu", "y0 = x0 / (1 + exp(-w0 * x0)) * x1;", nullptr, floating, common, 0, "SwiGLU", "x0 sigmoid(alpha x0) x1"},
    {"softplus", "y0 = softplus(x0, w0, w1);", nullptr, floating, common, 0, "Softplus", "log(1 + e^(beta x)) / beta"},
    {"softplus_backward", "T z = exp(x1 * w0); y0 = x1 * w0 > w1 ? x0 : x0 * z / (z + 1);", nullptr, floating, common, 0, nullptr, "gradient"},
    {"log_sigmoid", "y0 = log_sigmoid(x0);", nullptr, floating, common, 0, nullptr, "log(sigmoid(x))"},
    {"log_sigmoid_backward", "T z = exp(-fabs(x1)); y0 = x0 * ((x1 < 0 ? (T)1 : (T)0) - (x1 < 0 ? (T)1 : (T)-1) * (z / (1 + z)));", nullptr, floating, common, 0, nullptr, "gradient"},
    {"prelu", "y0 = x0 > 0 ? x0 : x1 * x0;", nullptr, numbers, common, 0, "PRelu", "x, weight x below 0"},
    {"prelu_backward", "y0 = x0 > 0 ? x2 : x1 * x2; y1 = x0 > 0 ? (T)0 : x0 * x2;", nullptr, floating, common, 0, nullptr, "gradients of input and weight; x2 is the gradient"},
    {"glu", "y0 = x0 * sigmoid(x1);", nullptr, floating, common, 0, nullptr, "x0 sigmoid(x1)"},
    {"glu_backward", "T s = sigmoid(x1); y0 = s * x2; y1 = (1 - s) * s * x2 * x0;", nullptr, floating, common, 0, nullptr, "gradients of both halves"},
    {"glu_jvp", "T s = sigmoid(x1); y0 = x2 * s + x0 * (s - s * s) * x3;", nullptr, floating, common, 0, nullptr, "tangent of glu"},
    {"add_relu", "y0 = maximum(x0 + w0 * x1, (T)0);", nullptr, any_real, common, 0, nullptr, "relu(x0 + alpha * x1)"},

    // Losses, elementwise. x0 input, x1 target; gradients: x0 gradient, x1 input, x2 target.
    {"mse_loss", "T d = x0 - x1; y0 = d * d;", nullptr, any_real, common, 0, nullptr, "(x0 - x1)^2"},
    {"mse_loss_backward", "y0 = w0 * (x1 - x2) * x0;", nullptr, floating, common, 0, nullptr, "gradient; w0 = 2 or 2 / n"},
    {"smooth_l1_loss", "T d = fabs(x0 - x1); y0 = d < w0 ? LIT(0.5) * d * d / w0 : d - LIT(0.5) * w0;", nullptr, floating, common, 0, nullptr, "smooth L1, beta"},
    {"smooth_l1_loss_backward", "T d = x1 - x2; y0 = d <= -w1 ? -w0 * x0 : d >= w1 ? w0 * x0 : w0 * d * x0 / w1;", nullptr, floating, common, 0, nullptr, "gradient; w0 = 1 or 1 / n, w1 = beta"},
    {"huber_loss", "T d = fabs(x0 - x1); y0 = d <= w0 ? LIT(0.5) * d * d : w0 * (d - LIT(0.5) * w0);", nullptr, floating, common, 0, nullptr, "Huber, delta"},
    {"huber_loss_backward", "T d = x1 - x2; y0 = d <= -w1 ? -w0 * x0 * w1 : d >= w1 ? w0 * x0 * w1 : w0 * d * x0;", nullptr, floating, common, 0, nullptr, "gradient; w0 = 1 or 1 / n, w1 = delta"},
    {"binary_cross_entropy", "y0 = (x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * clamped_log(x0);", nullptr, floating, common, 0, nullptr, "-(x1 log x0 + (1 - x1) log(1 - x0))"},
    {"binary_cross_entropy_weight", "y0 = ((x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * clamped_log(x0)) * x2;", nullptr, floating, common, 0, nullptr, "the same times x2"},
    {"binary_cross_entropy_backward", "y0 = w0 * (x0 * (x1 - x2) / fmax((1 - x1) * x1, LIT(1e-12)));", nullptr, floating, common, 0, nullptr, "gradient; w0 = 1 or 1 / n"},
    {"binary_cross_entropy_weight_backward", "y0 = w0 * (x0 * (x1 - x2) / fmax((1 - x1) * x1, LIT(1e-12))) * x3;", nullptr, floating, common, 0, nullptr, "gradient with weight x3"},
};

}  // namespace

std::span<const PointwiseRow> pointwise_rows() { return rows; }

const PointwiseRow& pointwise_row(std::string_view name)
{
    static const auto* by_name = [] {
        auto* map = new std::unordered_map<std::string_view, const PointwiseRow*>;
        for (const PointwiseRow& row : rows)
            map->emplace(row.name, &row);
        return map;
    }();
    auto found = by_name->find(name);
    require(found != by_name->end(), "there is no pointwise operator ", name);
    return *found->second;
}

}  // namespace clprim
