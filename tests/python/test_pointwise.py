"""Elementwise operators against PyTorch's CPU."""
import pytest
import torch

from opinfo import case_id, cases, check

NAMES = {
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "square", "neg", "reciprocal",
    "addcmul", "addcdiv", "lerp", "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max", "where", "abs", "sign",
    "sgn", "signbit", "angle", "conj_physical", "complex", "polar", "floor", "ceil", "trunc", "round", "frac",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite",
    "isposinf", "isneginf", "isreal", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
    "bitwise_right_shift", "gcd", "lcm", "heaviside", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt",
    "xlogy", "special.xlog1py", "logaddexp", "logaddexp2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "atan2", "hypot", "copysign", "nextafter", "sinc", "erf", "erfc", "nan_to_num", "logit",
    "sigmoid", "rad2deg", "deg2rad", "positive", "float_power", "isclose", "ldexp", "fill", "masked_fill",
    "nn.functional.relu", "nn.functional.relu6", "nn.functional.gelu", "nn.functional.silu", "nn.functional.mish",
    "nn.functional.hardswish", "nn.functional.hardsigmoid", "nn.functional.hardtanh", "nn.functional.leaky_relu",
    "nn.functional.elu", "nn.functional.selu", "nn.functional.celu", "nn.functional.softplus", "nn.functional.softshrink",
    "nn.functional.hardshrink", "nn.functional.logsigmoid", "nn.functional.threshold", "nn.functional.prelu", "nn.functional.glu",
    "nn.functional.softsign", "nn.functional.tanhshrink", "nn.functional.mse_loss", "nn.functional.smooth_l1_loss",
    "nn.functional.huber_loss", "nn.functional.l1_loss", "nn.functional.binary_cross_entropy",
    "nn.functional.binary_cross_entropy_with_logits", "nn.functional.poisson_nll_loss", "nn.functional.gaussian_nll_loss",
}


@pytest.mark.parametrize("case", cases(NAMES), ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)
