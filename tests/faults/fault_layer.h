/* A layer of OpenCL's loader (OPENCL_LAYERS) which makes chosen calls fail, as drivers do when memory is short, a
 * device is lost or their compiler is broken. A test program opens the same library and says what fails. */
#ifndef CLPRIM_TESTS_FAULT_LAYER_H
#define CLPRIM_TESTS_FAULT_LAYER_H

#if defined(_WIN32)
#define FAULT_EXPORT __declspec(dllexport)
#else
#define FAULT_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The nth call (from 1 on) of the function `call`, or of any known one for "*", returns `code` and does nothing;
 * nth = 0: every such call. A code of 0 (CL_SUCCESS) says that the call worked although nothing was done.
 * FAULT_LAYER=call=code in the environment is the same with nth = 0 from the start. */
FAULT_EXPORT void fault_arm(const char* call, unsigned long nth, int code);

/* Nothing fails any more. Gives the number of calls that failed since fault_arm. */
FAULT_EXPORT unsigned long fault_disarm(void);

/* Whether the loader uses this layer in this process. */
FAULT_EXPORT int fault_layer_in_use(void);

#ifdef __cplusplus
}
#endif
#endif
