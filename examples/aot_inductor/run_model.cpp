// Runs a package of AOTInductor (export_model.py) on the OpenCL device:
//
//     run_model model.pt2 8        on 8 images, printing the classes' scores
//
// PyTorch finds the device through Python, so that an interpreter is started once; the model itself runs without it.
// Built with the compiler's options that build_options.py prints.
#include <Python.h>

#include <cstdlib>
#include <iostream>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

namespace {

void load_device()
{
    Py_InitializeEx(0);
    if (PyRun_SimpleString("import torch, torch_ocl") != 0)
        std::exit(1);
    PyEval_SaveThread();   // others may have the interpreter from now on
}

int run(const char* path, long batch)
{
    const c10::InferenceMode no_gradients;
    torch::inductor::AOTIModelPackageLoader model(path);
    const at::Tensor images = at::linspace(-1, 1, batch * 3 * 16 * 16).view({batch, 3, 16, 16});
    const at::Tensor scores = model.run({images.to(at::Device("ocl:0"))}).at(0).cpu();
    for (long i = 0; i < batch; ++i) {
        for (long k = 0; k < scores.size(1); ++k)
            std::cout << (k == 0 ? "" : " ") << scores[i][k].item<float>();
        std::cout << '\n';
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 3) {
        std::cerr << "usage: run_model PACKAGE BATCH\n";
        return 2;
    }
    load_device();
    try {
        return run(argv[1], std::atol(argv[2]));
    }
    catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
