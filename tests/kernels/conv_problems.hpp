// Convolutions that tests walk: every path of every implementation, in shapes small enough for a double reference.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <clprim/conv.hpp>

namespace clprim::test {

struct ConvCase {
    std::string name;
    Dims x, w;                 // w as PyTorch stores it
    ConvOptions options;
};

inline std::ostream& operator<<(std::ostream& out, const ConvCase& c) { return out << c.name; }

inline ConvOptions conv(Dims stride, Dims pad, Dims dilation = {}, std::int64_t groups = 1)
{
    ConvOptions options;
    options.stride = stride;
    options.pad_begin = options.pad_end = pad;
    options.dilation = dilation;
    options.groups = groups;
    return options;
}

inline ConvOptions transposed(Dims stride, Dims pad, Dims output_padding, Dims dilation = {}, std::int64_t groups = 1)
{
    ConvOptions options = conv(stride, pad, dilation, groups);
    options.output_padding = output_padding;
    options.transposed = true;
    return options;
}

inline std::vector<ConvCase> conv_cases()
{
    ConvOptions asymmetric = conv({1, 1}, {0, 1});
    asymmetric.pad_end = {1, 2};
    ConvOptions uneven = conv({1, 1}, {2, 0});
    uneven.pad_end = {0, 1};
    ConvOptions cut = conv({2}, {-3});
    cut.pad_end = {-4};
    return {
        {"3x3", {2, 5, 9, 11}, {7, 5, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_many_channels", {1, 40, 12, 40}, {37, 40, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_large_tiles", {1, 16, 24, 25}, {160, 16, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_7x7_batch", {3, 33, 7, 7}, {64, 33, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_vectors_of_channels", {2, 32, 13, 17}, {44, 32, 3, 3}, uneven},
        {"3x3_many_blocks", {1, 64, 30, 29}, {24, 64, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_of_one_position", {3, 6, 1, 1}, {5, 6, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_wide_padding", {2, 9, 5, 6}, {17, 9, 3, 3}, conv({1, 1}, {2, 2})},
        {"3x3_stride2", {2, 16, 15, 14}, {24, 16, 3, 3}, conv({2, 2}, {1, 1})},
        {"3x3_stride2_wide", {1, 4, 9, 80}, {6, 4, 3, 3}, conv({2, 2}, {1, 1})},
        {"3x3_outputs_by_eights", {2, 7, 5, 70}, {40, 7, 3, 3}, conv({1, 1}, {1, 1})},
        {"3x3_groups_by_eights", {1, 22, 9, 8}, {48, 11, 3, 3}, conv({1, 2}, {1, 1}, {2, 1}, 2)},
        {"1x1", {2, 19, 6, 7}, {32, 19, 1, 1}, conv({1, 1}, {0, 0})},
        {"1x1_wide", {2, 32, 16, 16}, {48, 32, 1, 1}, conv({1, 1}, {0, 0})},
        {"1x1_stride2", {2, 16, 14, 14}, {32, 16, 1, 1}, conv({2, 2}, {0, 0})},
        {"1x1_padded", {1, 4, 5, 5}, {3, 4, 1, 1}, conv({1, 1}, {2, 1})},
        {"3x3_long_sums", {1, 288, 5, 6}, {32, 288, 3, 3}, conv({1, 1}, {1, 1})},
        {"1x1_panel_and_a_half", {1, 40, 5, 5}, {24, 40, 1, 1}, conv({1, 1}, {0, 0})},
        {"1x1_pages_apart", {1, 1024, 3, 5}, {128, 1024, 1, 1}, conv({1, 1}, {0, 0})},
        {"7x7_first_layer", {2, 3, 40, 38}, {16, 3, 7, 7}, conv({2, 2}, {3, 3})},
        {"patches", {2, 3, 16, 16}, {20, 3, 4, 4}, conv({4, 4}, {0, 0})},
        {"stride3", {1, 4, 20, 19}, {5, 4, 3, 3}, conv({3, 3}, {1, 1})},
        {"kernel_below_stride", {1, 4, 11, 10}, {5, 4, 2, 2}, conv({3, 3}, {0, 0})},
        {"dilated", {2, 6, 13, 12}, {8, 6, 3, 3}, conv({1, 1}, {2, 2}, {2, 2})},
        {"dilated_strided", {1, 6, 17, 18}, {8, 6, 3, 2}, conv({2, 3}, {2, 1}, {2, 3})},
        {"dilation_2_stride_2", {1, 4, 17, 18}, {8, 4, 3, 3}, conv({2, 2}, {2, 2}, {2, 2})},
        {"asymmetric_padding", {2, 4, 8, 9}, {6, 4, 2, 4}, asymmetric},
        {"rectangular", {1, 5, 10, 21}, {4, 5, 1, 5}, conv({1, 2}, {0, 2})},
        {"kernel_covers_input", {2, 8, 5, 5}, {9, 8, 5, 5}, conv({1, 1}, {0, 0})},
        {"all_padding", {1, 2, 2, 2}, {3, 2, 3, 3}, conv({1, 1}, {4, 4})},
        {"groups", {2, 12, 9, 8}, {18, 4, 3, 3}, conv({1, 1}, {1, 1}, {}, 3)},
        {"groups_32", {1, 64, 7, 7}, {64, 2, 3, 3}, conv({1, 1}, {1, 1}, {}, 32)},
        {"groups_of_2", {2, 32, 5, 21}, {32, 2, 3, 3}, conv({1, 1}, {1, 1}, {}, 16)},
        {"groups_of_4_stride2", {1, 16, 11, 38}, {16, 4, 3, 5}, conv({2, 2}, {1, 2}, {1, 2}, 4)},
        {"groups_of_8", {2, 48, 6, 9}, {48, 8, 3, 3}, conv({1, 1}, {1, 1}, {}, 6)},
        {"groups_of_2_not_by_sixteens", {1, 22, 6, 13}, {22, 2, 3, 3}, conv({1, 1}, {1, 1}, {}, 11)},
        {"depthwise_3d_wide", {1, 27, 4, 5, 11}, {27, 1, 3, 3, 3}, conv({1, 2, 1}, {1, 1, 1}, {}, 27)},
        {"depthwise_3d_of_one_plane_strided", {2, 19, 1, 8, 9}, {19, 1, 1, 3, 3}, conv({2, 1, 1}, {0, 1, 1}, {}, 19)},
        {"3d_of_one_plane_strided", {2, 1, 1, 7, 4}, {5, 1, 1, 3, 1}, conv({3, 1, 1}, {0, 1, 0}, {1, 2, 2})},
        {"groups_of_4_1d", {2, 32, 40}, {32, 4, 3}, conv({3}, {2}, {}, 8)},
        {"depthwise", {2, 19, 11, 13}, {19, 1, 3, 3}, conv({1, 1}, {1, 1}, {}, 19)},
        {"depthwise_wide", {1, 32, 6, 56}, {32, 1, 3, 3}, conv({1, 1}, {1, 1}, {}, 32)},
        {"depthwise_stride2", {2, 16, 12, 15}, {16, 1, 3, 3}, conv({2, 2}, {1, 1}, {}, 16)},
        {"depthwise_5x5", {1, 18, 14, 14}, {18, 1, 5, 5}, conv({2, 2}, {2, 2}, {}, 18)},
        {"depthwise_7x7", {1, 16, 14, 20}, {16, 1, 7, 7}, conv({1, 1}, {3, 3}, {}, 16)},
        {"depthwise_5x5_same", {2, 8, 9, 14}, {8, 1, 5, 5}, conv({1, 1}, {2, 2}, {}, 8)},
        {"depthwise_7x7_stride2", {1, 4, 15, 14}, {4, 1, 7, 7}, conv({2, 2}, {3, 3}, {}, 4)},
        {"depthwise_1d_31_taps", {2, 6, 43}, {6, 1, 31}, conv({1}, {15}, {}, 6)},
        {"depthwise_1d_4_taps", {2, 12, 50}, {12, 1, 4}, conv({1}, {3}, {}, 12)},
        {"groups_of_5_and_6", {2, 10, 7, 9}, {12, 5, 3, 3}, conv({1, 1}, {1, 1}, {}, 2)},
        {"groups_of_9_stride2", {1, 18, 11, 10}, {18, 9, 3, 3}, conv({2, 2}, {1, 1}, {}, 2)},
        {"groups_dilated", {1, 8, 12, 11}, {12, 4, 3, 3}, conv({1, 1}, {2, 2}, {2, 2}, 2)},
        {"depthwise_multiplier", {1, 6, 9, 9}, {12, 1, 3, 3}, conv({1, 1}, {1, 1}, {}, 6)},
        {"depthwise_dilated", {1, 8, 12, 11}, {8, 1, 3, 3}, conv({1, 1}, {2, 2}, {2, 2}, 8)},
        {"depthwise_dilated_fours", {1, 8, 9, 16}, {8, 1, 3, 3}, conv({1, 1}, {2, 2}, {2, 2}, 8)},
        {"depthwise_dilated_5x5_stride2", {1, 4, 15, 20}, {4, 1, 5, 5}, conv({2, 2}, {4, 3}, {2, 2}, 4)},
        {"depthwise_dilated_far", {1, 4, 13, 24}, {4, 1, 3, 3}, conv({1, 1}, {4, 8}, {4, 8}, 4)},
        {"depthwise_dilated_far_row", {1, 4, 2, 40}, {4, 1, 1, 7}, conv({1, 1}, {0, 12}, {1, 4}, 4)},
        {"depthwise_fours", {2, 8, 9, 20}, {8, 1, 3, 3}, conv({1, 1}, {1, 1}, {}, 8)},
        {"depthwise_fours_2x2", {1, 8, 6, 16}, {8, 1, 2, 2}, conv({1, 1}, {1, 0}, {}, 8)},
        {"depthwise_fours_stride2", {2, 8, 9, 24}, {8, 1, 3, 3}, conv({2, 2}, {1, 1}, {}, 8)},
        {"depthwise_stride2_rows_of_35", {2, 9, 19, 35}, {9, 1, 3, 3}, conv({2, 2}, {1, 1}, {}, 9)},
        {"depthwise_5x5_stride2_rows_of_66", {1, 4, 9, 66}, {4, 1, 5, 5}, conv({2, 2}, {2, 0}, {}, 4)},
        {"depthwise_7x7_stride2_odd_rows", {1, 3, 17, 39}, {3, 1, 7, 7}, conv({2, 2}, {5, 1}, {}, 3)},
        {"depthwise_fours_5x5_wide_padding", {1, 4, 6, 12}, {4, 1, 5, 5}, conv({1, 1}, {4, 7}, {}, 4)},
        {"depthwise_fours_7x7", {1, 4, 11, 16}, {4, 1, 7, 7}, conv({1, 1}, {3, 3}, {}, 4)},
        {"depthwise_fours_row_of_9", {1, 4, 1, 28}, {4, 1, 1, 9}, conv({1, 1}, {0, 4}, {}, 4)},
        {"depthwise_11x11", {2, 5, 19, 14}, {5, 1, 11, 11}, conv({1, 1}, {5, 5}, {}, 5)},
        {"depthwise_11x11_fours", {1, 4, 9, 28}, {4, 1, 11, 11}, conv({1, 1}, {5, 5}, {}, 4)},
        {"depthwise_9x4_dilated", {1, 6, 25, 17}, {6, 1, 9, 4}, conv({1, 1}, {8, 3}, {2, 2}, 6)},
        {"depthwise_8x13_dilated", {1, 4, 18, 28}, {4, 1, 8, 13}, conv({1, 1}, {7, 12}, {2, 2}, 4)},
        {"depthwise_12x3_few_rows", {2, 3, 2, 9}, {3, 1, 12, 3}, conv({1, 1}, {11, 1}, {}, 3)},
        {"depthwise_21x1", {1, 6, 23, 10}, {6, 1, 21, 1}, conv({1, 1}, {10, 0}, {}, 6)},
        {"depthwise_60x1", {1, 3, 70, 5}, {3, 1, 60, 1}, conv({1, 1}, {0, 0}, {}, 3)},
        {"depthwise_17_taps_stride2", {1, 4, 3, 40}, {4, 1, 3, 17}, conv({1, 2}, {1, 8}, {}, 4)},
        {"groups_fours_of_5", {1, 15, 6, 16}, {15, 5, 3, 3}, conv({1, 1}, {1, 1}, {}, 3)},
        {"depthwise_dilated_as_strided", {1, 20, 9, 26}, {20, 1, 3, 3}, conv({2, 2}, {2, 2}, {2, 2}, 20)},
        {"depthwise_long_rows", {1, 2, 2, 30000}, {2, 1, 1, 3}, conv({1, 2}, {0, 1}, {}, 2)},
        {"depthwise_all_padding", {1, 4, 2, 3}, {4, 1, 3, 3}, conv({2, 2}, {5, 5}, {}, 4)},
        {"conv1d", {3, 6, 31}, {10, 6, 5}, conv({1}, {2})},
        {"conv1d_stride", {2, 4, 50}, {8, 4, 3}, conv({2}, {0}, {3})},
        {"frames", {2, 1, 200}, {37, 1, 32}, conv({10}, {0})},
        {"frames_padded", {2, 1, 61}, {9, 1, 25}, conv({4}, {12})},
        {"frames_of_one_filter", {3, 1, 150}, {1, 1, 54}, conv({3}, {27})},
        {"frames_along_a_column", {2, 1, 70, 1}, {5, 1, 24, 1}, conv({2, 1}, {3, 0})},
        {"frames_cut_off", {1, 1, 50}, {6, 1, 9}, cut},
        {"conv3d", {1, 3, 5, 6, 7}, {5, 3, 3, 3, 3}, conv({1, 1, 1}, {1, 1, 1})},
        {"conv3d_strided", {2, 4, 6, 7, 8}, {6, 2, 2, 3, 3}, conv({2, 1, 2}, {0, 1, 1}, {}, 2)},
        {"depthwise_3d", {1, 4, 5, 6, 7}, {4, 1, 3, 3, 3}, conv({1, 1, 1}, {1, 1, 1}, {}, 4)},
        {"transposed", {2, 6, 5, 6}, {6, 4, 3, 3}, transposed({2, 2}, {1, 1}, {1, 0})},
        {"transposed_4x4", {1, 33, 8, 8}, {33, 20, 4, 4}, transposed({2, 2}, {1, 1}, {})},
        {"transposed_3x3", {2, 11, 6, 9}, {11, 18, 3, 3}, transposed({1, 1}, {1, 0}, {})},
        {"transposed_groups", {1, 6, 5, 6}, {6, 3, 3, 2}, transposed({1, 3}, {0, 1}, {0, 2}, {2, 1}, 2)},
        {"transposed_1d", {2, 4, 9}, {4, 5, 4}, transposed({3}, {1}, {1})},
        {"transposed_3d", {1, 3, 3, 4, 3}, {3, 2, 2, 2, 2}, transposed({2, 2, 2}, {0, 0, 0}, {})},
    };
}

}  // namespace clprim::test
