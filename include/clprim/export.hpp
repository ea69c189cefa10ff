// What the library shows: declarations of headers below include/clprim, between CLPRIM_API_BEGIN and CLPRIM_API_END,
// and single ones marked CLPRIM_API. Everything else is hidden. (An attribute of the namespace would be shorter, but
// clang takes it from where a function is defined.)
#pragma once

#if defined(_WIN32)   // the linker exports all
#define CLPRIM_API
#define CLPRIM_API_BEGIN
#define CLPRIM_API_END
#else
#define CLPRIM_API __attribute__((visibility("default")))
#define CLPRIM_API_BEGIN _Pragma("GCC visibility push(default)")
#define CLPRIM_API_END _Pragma("GCC visibility pop")
#endif
