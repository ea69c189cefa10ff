// CLPRIM_API marks what the library shows: headers below include/clprim say `namespace clprim CLPRIM_API`, everything
// else is hidden.
#pragma once

#if defined(_WIN32)
#define CLPRIM_API   // the linker exports all
#else
#define CLPRIM_API __attribute__((visibility("default")))
#endif
