// Uses the installed library only: allocates, writes, runs a kernel of its own, reads back.
#include <cstdio>
#include <vector>

#include <clprim/clprim.hpp>

int main()
try {
    clprim::Context& context = clprim::Context::get(0);
    clprim::Queue& queue = context.queue();
    std::vector<float> host(1000, 3.0f);
    const clprim::Tensor x = context.empty({1000}, clprim::DataType::float32, queue);
    queue.write(x, host);

    const clprim::Program& program = context.program_from_text(
        "double", "__kernel void twice(__global float* x, ulong x_offset, ulong n)\n"
                  "{ ulong i = get_global_id(0); x += x_offset; if (i < n) x[i] *= 2.0f; }\n");
    queue.launch(program.kernel("twice"), clprim::Range::linear(host.size(), 64), x,
                 static_cast<cl_ulong>(host.size()));
    static_assert(CLPRIM_VERSION >= CLPRIM_MAKE_VERSION(0, 1, 0));
    for (const float value : queue.read<float>(x))
        if (value != 6.0f)
            return std::printf("wrong value %f\n", value), 1;
    std::printf("clprim works on %s\n", context.device().name.c_str());
} catch (const clprim::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
}
