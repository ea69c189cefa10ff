// clprim from C++: adds two tensors and multiplies two matrices on the first OpenCL device, or on the one that the
// first argument names ("1", "gpu", part of a name).
#include <cmath>
#include <cstdio>
#include <vector>

#include <clprim/clprim.hpp>
#include <clprim/gemm.hpp>
#include <clprim/pointwise.hpp>

namespace {

using namespace clprim;

Tensor upload(Queue& queue, const std::vector<float>& values, const Dims& shape)
{
    Tensor tensor = queue.context().empty(shape, DataType::float32, queue);
    queue.write(tensor, values);
    return tensor;
}

// Shows the first element and says whether all are as expected.
bool show(const char* what, const std::vector<float>& found, float expected)
{
    bool right = true;
    for (const float value : found)
        right = right && std::abs(value - expected) <= 1e-5f * std::abs(expected);
    std::printf("%-16s %g, expected %g: %s\n", what, found[0], expected, right ? "right" : "WRONG");
    return right;
}

}  // namespace

int main(int argc, char** argv)
try {
    Context& context = Context::get(argc > 1 ? argv[1] : "0");
    Queue& queue = context.queue();
    std::printf("%s [%s]\n", context.device().name.c_str(), context.device().platform_name.c_str());

    const int m = 40, k = 50, n = 60;
    const Tensor a = upload(queue, std::vector<float>(m * k, 1.5f), {m, k});
    const Tensor b = upload(queue, std::vector<float>(k * n, 2.0f), {k, n});
    const Tensor row = upload(queue, std::vector<float>(k, 0.25f), {k});

    // An elementwise kernel from an expression; the row is broadcast over the rows of a.
    const Tensor sum = context.empty({m, k}, DataType::float32, queue);
    pointwise(queue, {a, row}, {sum}, {}, "y0 = x0 + x1;");

    const Tensor product = context.empty({m, n}, DataType::float32, queue);
    gemm(queue, gemm_problem(a, b, product), a, b, product);

    // Reading waits for the work enqueued before it.
    const bool right = show("sum", queue.read<float>(sum), 1.75f);
    return show("matrix product", queue.read<float>(product), 1.5f * 2.0f * k) && right ? 0 : 1;
} catch (const clprim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
