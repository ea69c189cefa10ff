/* The version of these headers; clprim_version() says that of the library. Before 1.0 a new minor version may change
 * the interface, as its SOVERSION says. */
#ifndef CLPRIM_VERSION_H
#define CLPRIM_VERSION_H

#define CLPRIM_VERSION_MAJOR 0
#define CLPRIM_VERSION_MINOR 1
#define CLPRIM_VERSION_PATCH 0
#define CLPRIM_VERSION_STRING "0.1.0"
/* To compare: #if CLPRIM_VERSION >= CLPRIM_MAKE_VERSION(0, 1, 0) */
#define CLPRIM_MAKE_VERSION(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))
#define CLPRIM_VERSION CLPRIM_MAKE_VERSION(CLPRIM_VERSION_MAJOR, CLPRIM_VERSION_MINOR, CLPRIM_VERSION_PATCH)

#endif
