// Derivatives of random numbers by the parameters that they were drawn with, -(d cdf / d parameter) / pdf. Expansions and
// fits as in PyTorch's ATen/native/Distributions.h (Taylor series near 0, Rice's saddle point for large parameters,
// rational fits between), so that results are those of its CPU.
#include "kernels/pointwise/special.cl"

// x - 1 - log(x), which vanishes quadratically at 1.
static inline T log_excess(T x) { return x - 1 - log1p(x - 1); }

// d x / d alpha of x drawn from Gamma(alpha, 1).
static inline T gamma_gradient(T alpha, T x)
{
    if (x < LIT(0.8)) {
        T term = 1, once = 1 / alpha, twice = once * once;
        for (int i = 1; i <= 5; ++i) {
            term *= -x / i;
            once += term / (alpha + i);
            twice += term / ((alpha + i) * (alpha + i));
        }
        const T result = -x * exp(x) * ((log(x) - digamma_of(alpha)) * once - twice);
        return isnan(result) ? (T)0 : result;
    }
    const T ratio = x / alpha;
    if (alpha > 8) {
        if (ratio >= LIT(0.9) && ratio <= LIT(1.1)) {
            const T first = 1 + 24 * alpha * (1 + 12 * alpha);
            const T second = 1440 * alpha * alpha + 6 * x * (53 - 120 * x) - 65 * x * ratio + alpha * (107 + 3600 * x);
            return first / (alpha * alpha) * (second / (1244160 * alpha * alpha));
        }
        const T width = sqrt(8 * alpha), gap = alpha - x, power = pow(alpha * log_excess(ratio), LIT(-1.5));
        const T sum = width / gap + (x < alpha ? -power : power);
        const T middle = log(ratio) * sum - sqrt(2 / alpha) * ((alpha + x) / gap) / gap;
        return -(1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha))) * x * middle / width;
    }
    const T u = log(ratio), v = log(alpha);
#define IN_U(a, b, c) (LIT(a) + u * (LIT(b) + u * LIT(c)))
    const T p = IN_U(0.16009398, 0.53487893, 0.040121004) + v * (IN_U(-0.094634809, 0.1298071, -0.0065914022)
                + v * (IN_U(0.025146376, 0.065735949, -0.0026286047) + v * IN_U(-0.0030648343, -0.0015649758, -0.0013441777)));
    const T q = IN_U(1.0, 0.16639465, 0.017050642) + v * (IN_U(0.32668115, 0.020070113, -0.0021309326)
                + v * (IN_U(0.10406089, -0.0035938915, 0.00085092367) + v * IN_U(0.0014179084, -0.00058392623, -1.5247877e-07)));
#undef IN_U
    return exp(p / q);
}

// d x / d alpha / (1 - x) of x drawn from Beta(alpha, beta), x near 0.
static inline T beta_gradient_near_0(T x, T alpha, T beta)
{
    const T factor = digamma_of(alpha) - digamma_of(alpha + beta) - log(x);
    T term = 1, series = (factor + 1 / alpha) / alpha;
    for (int i = 1; i <= 10; ++i) {
        term *= (i - beta) * x / i;
        series += term / (alpha + i) * (factor + 1 / (alpha + i));
    }
    const T result = x * pow(1 - x, -beta) * series;
    return isnan(result) ? (T)0 : result;
}

// The same by beta.
static inline T beta_gradient_by_beta(T x, T alpha, T beta)
{
    const T factor = digamma_of(alpha + beta) - digamma_of(beta);
    T term = 1, product = 1, slope = 0, series = factor / alpha;
    for (int i = 1; i <= 8; ++i) {
        term *= -x / i;
        slope = slope * (beta - i) + product;
        product *= beta - i;
        series += term / (alpha + i) * (slope + factor * product);
    }
    const T result = -pow(1 - x, 1 - beta) * series;
    return isnan(result) ? (T)0 : result;
}

// Both parameters large.
static inline T beta_gradient_saddle(T x, T alpha, T beta)
{
    const T total = alpha + beta, mean = alpha / total, deviation = sqrt(alpha * beta / (total + 1)) / total;
    if (fabs(x - mean) <= LIT(0.1) * deviation) {   // in units of total: powers of 4 of large parameters overflow
        const T a = alpha / total, b = beta / total, y = 1 - x, n = total;
        const T poly = 47 * x * b * b * b * b + a * ((43 / n + 20 * (16 / n + 27 * b) * x) * b * b * b * n
                       + a * (3 * (59 / n + 180 * b - 90 * x / n) * b * b * n
                       + a * ((453 / n + 1620 * b * y - 455 * x / n) * b * n + a * (8 * y * (135 * b * n - 11)))));
        return (1 / n + 12 * a) * (1 / n + 12 * b) / y * poly / (12960 * a * a * a * b * b * (1 + 12 * n)) / n;
    }
#define STIRLING(a) (1 + (1 + 1 / (24 * (a))) / (12 * (a)))
    const T stirling = STIRLING(alpha) * STIRLING(beta) / STIRLING(total);
#undef STIRLING
    const T offset = beta * x + alpha * (x - 1);
    const T first = (2 * alpha * alpha * (x - 1) + alpha * beta * (x - 1) - x * beta * beta) /
                    (sqrt(2 * alpha / beta) * total * sqrt(total) * offset) / offset;
    // alpha log(mean / x) + beta log((1 - mean) / (1 - x)), of which the linear parts cancel
    const T distance = alpha * log_excess(x / mean) + beta * log_excess((1 - x) / (1 - mean));
    const T power = pow(distance, LIT(-1.5));
    const T second = LIT(0.5) * log(mean / x) * (sqrt(8 * alpha * beta / total) / offset + (x < mean ? power : -power));
    return stirling * (-x / sqrt(2 * alpha * beta / total)) * (first + second);
}

// d x_i / d alpha_i / (1 - x_i) of a component x of a sample of Dirichlet's distribution, total the sum of all parameters.
static inline T dirichlet_gradient(T x, T alpha, T total)
{
    const T beta = total - alpha, boundary = total * x * (1 - x);
    if (x <= LIT(0.5) && boundary < LIT(2.5))
        return beta_gradient_near_0(x, alpha, beta);
    if (x >= LIT(0.5) && boundary < LIT(0.75))
        return -beta_gradient_by_beta(1 - x, beta, alpha);
    if (alpha > 6 && beta > 6)
        return beta_gradient_saddle(x, alpha, beta);
    const T u = log(x), a = log(alpha) - u, b = log(total) - a;
#define IN_B(c0, c1, c2, c3) (LIT(c0) + b * (LIT(c1) + b * (LIT(c2) + b * LIT(c3))))
    const T p = IN_B(1.003668233, -0.01061107488, -0.0657888334, 0.01201642863)
                + a * (IN_B(0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033)
                       + a * IN_B(-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013))
                + u * (IN_B(0.221950385, -0.3187676331, 0.01799915743, 0.01074823814)
                       + a * (IN_B(-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057)
                              + a * IN_B(0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05))
                       + u * (IN_B(-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565)
                              + a * (IN_B(0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181)
                                     + a * IN_B(0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05))));
    const T q = IN_B(1.0, -0.02924021934, -0.04438342661, 0.007285809825)
                + a * (IN_B(0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521)
                       + a * IN_B(-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149))
                + u * (IN_B(0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273)
                       + a * (IN_B(0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956)
                              + a * IN_B(-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05))
                       + u * (IN_B(0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05)
                              + a * (IN_B(0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05)
                                     + a * IN_B(-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06))));
#undef IN_B
    return p / q * (x * (digamma_of(total) - digamma_of(alpha)) / beta);
}
