/* What the tests of the C interface share: conditions, and calls that are refused. */
#ifndef CHECK_H
#define CHECK_H

#include <clprim.h>

#include <stdio.h>
#include <string.h>

static int failures = 0;
#define CHECK(condition) \
    ((condition) ? (void)0 : (void)(++failures, printf("line %d: %s: %s\n", __LINE__, #condition, clprim_last_error())))

/* One call that is wrong in one argument: its status, and that the message begins with the function's name and has
 * what says which argument and why. */
static int refused(clprim_status status, clprim_status expected, const char* function, const char* part)
{
    const char* message = clprim_last_error();
    const size_t length = strlen(function);
    return status == expected && strncmp(message, function, length) == 0 && message[length] == ':' &&
           strstr(message, part) != NULL;
}
#define REFUSED(part, function, ...) CHECK(refused(function(__VA_ARGS__), CLPRIM_INVALID_ARGUMENT, #function, part))

#endif
