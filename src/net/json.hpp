// nlohmann's JSON, kept out of the public headers, with errors of clprim.
#pragma once

#include <nlohmann/json.hpp>

#include <clprim/error.hpp>

namespace clprim {

using Json = nlohmann::ordered_json;

// Parses; throws InvalidArgument that begins with `what` and says where the text goes wrong.
Json parse_json(std::string_view text, std::string_view what);

}  // namespace clprim
