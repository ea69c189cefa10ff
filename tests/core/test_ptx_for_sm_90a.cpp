// Instructions that are comments become instructions, in PTX for sm_90 alone.
#include <gtest/gtest.h>

#include <string>

#include <core/ptx_for_sm_90a.hpp>

using clprim::detail::ptx_for_sm_90a;

namespace {

std::vector<unsigned char> bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string completed(const std::string& text)
{
    const auto result = ptx_for_sm_90a(bytes(text));
    return result ? std::string(result->begin(), result->end()) : "nothing";
}

}  // namespace

TEST(PtxForSm90a, MarksBecomeInstructions)
{
    EXPECT_EQ(completed(".version 8.8\n.target sm_90, texmode_independent\n// begin\n\t//sm_90a:wgmma.fence;\n"
                        "\tbar.sync 0;\n//sm_90a:{ .reg .pred p; }"),
              ".version 8.8\n.target sm_90a, texmode_independent\n// begin\n\twgmma.fence;\n\tbar.sync 0;\n"
              "{ .reg .pred p; }");
    EXPECT_EQ(completed(".target sm_90a\n//sm_90a:x;"), ".target sm_90a\nx;");
}

TEST(PtxForSm90a, OtherBinariesStay)
{
    EXPECT_EQ(completed(".target sm_90\n// nothing to do"), "nothing");
    EXPECT_EQ(completed(".target sm_86\n//sm_90a:x;"), "nothing");
    EXPECT_EQ(completed(std::string("\x7f" "ELF\0//sm_90a:", 14)), "nothing");
    EXPECT_EQ(completed(""), "nothing");
}
