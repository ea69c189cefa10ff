// Environment variables; docs/environment_variables.md lists them.
#pragma once

#include <string>

namespace clprim {

std::string environment(const char* name);   // empty when unset

}  // namespace clprim
