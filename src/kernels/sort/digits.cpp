#include <kernels/sort/digits.hpp>

#include <bit>

#include <clprim/copy.hpp>
#include <core/gpu_rate.hpp>
#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/sort/rows.hpp>

namespace clprim::detail {
namespace {

// As in digits.cl.
constexpr std::int64_t group = 256, tile = 15 * group, digits = 256, blocks_of_sum = 32;
constexpr std::int64_t most_blocks = 1024;   // of a row: sums of blocks and of the rest of them are few then

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool is_possible(const Device& device, std::int64_t n)
{
    constexpr std::size_t local = 4 * (tile + 33 * group / 4 + 4 * group);
    return device.kind != DeviceKind::cpu && n < (std::int64_t{1} << 31) - tile &&
           device.max_work_group_size >= static_cast<std::size_t>(group) && device.local_memory >= local;
}

std::string order_option(DataType dtype)
{
    switch (dtype) {
    case DataType::float64: return " -DORDER_float -DINFINITY_BITS=0x7ff0000000000000ul";
    case DataType::float32: return " -DORDER_float -DINFINITY_BITS=0x7f800000u";
    case DataType::float16: return " -DORDER_float -DINFINITY_BITS=0x7c00u";
    case DataType::bfloat16: return " -DORDER_float -DINFINITY_BITS=0x7f80u";
    case DataType::int8:
    case DataType::int16:
    case DataType::int32:
    case DataType::int64: return " -DORDER_int";
    default: return " -DORDER_uint";
    }
}

// One sort by the lowest `passes` digits.
class ByDigits {
public:
    ByDigits(Queue& queue, const Rows& rows, int passes)
        : queue_(queue), rows_(rows), passes_(passes), tiles_(up(up(rows.n, tile), most_blocks)),
          blocks_(up(up(rows.n, tile), tiles_)), sums_of_pass_(rows.count() * up(blocks_, blocks_of_sum) * digits),
          counts_(empty(rows.count() * blocks_ * digits, DataType::uint32)),
          sums_(empty(passes * sums_of_pass_, DataType::uint32)), first_(pass_options(true, passes == 1)),
          last_(pass_options(passes == 1, true))
    {
        fill(queue, sums_, 0.);
        const DataType key = is_wide(rows.input.dtype) ? DataType::uint64 : DataType::uint32;
        for (int i = 0; i < std::min(passes - 1, 2); ++i) {
            keys_[i] = empty(rows.count() * rows.n, key);
            places_[i] = empty(rows.count() * rows.n, DataType::uint32);
        }
    }
    void run()
    {
        for (int pass = 0; pass < passes_; ++pass)
            run_pass(pass);
    }

private:
    Tensor empty(std::int64_t count, DataType dtype) const { return queue_.context().empty({count}, dtype, queue_); }

    std::string pass_options(bool first, bool last) const
    {
        const DataType dtype = rows_.input.dtype;
        return concat("-DBITS=", 8 * size_of(dtype), order_option(dtype), rows_.descending ? " -DDESCENDING" : "",
                      " -DPOSITION=", name_of(rows_.indices.dtype), first ? " -DFIRST" : "", last ? " -DLAST" : "",
                      rows_.starts.options(), device_options());
    }
    std::string device_options() const
    {
        const int sub_group = spilling_sub_group(queue_.device());
        // Two groups on a core of Turing, where a few registers more would leave one.
        return sub_group ? concat(" -DSUB_GROUP=", sub_group)
                         : on_nvidia(queue_.device()) ? " -cl-nv-maxrregcount=128" : "";
    }
    void run_pass(int pass)
    {
        const bool first = pass == 0, last = pass + 1 == passes_;
        const std::string between =
            concat("-DBITS=", is_wide(rows_.input.dtype) ? 64 : 32, " -DDIMS=1 -DOPERANDS=1", device_options());
        const Program& program =
            queue_.context().program("kernels/sort/digits.cl", first ? first_ : last ? last_ : between);
        Range range = Range::groups({static_cast<std::size_t>(blocks_), static_cast<std::size_t>(rows_.count()), 1},
                                    {static_cast<std::size_t>(group), 1, 1});
        range.dims = 2;
        const Tensor sums(sums_.memory, sums_.offset + pass * sums_of_pass_, DataType::uint32, {sums_of_pass_}, {1});
        const auto finish = [&](Launch& launch, bool rows) {
            launch.arg(cl_uint(rows_.n)).arg(cl_uint(tiles_)).arg(cl_uint(8 * pass));
            if (rows)
                rows_.starts.set_argument(launch);
            launch.run(range);
        };
        const Tensor &keys = keys_[(pass + 1) % 2], &places = places_[(pass + 1) % 2];
        Launch count(queue_, program.kernel("count_digits"));
        if (first)
            count.arg(rows_.input).arg(rows_.stride(rows_.input));
        else
            count.arg(keys);
        count.arg(counts_).arg(sums);
        finish(count, first);

        Launch move(queue_, program.kernel("move_by_digit"));
        if (first || last)
            move.arg(rows_.input).arg(rows_.stride(rows_.input));
        if (!first)
            move.arg(keys).arg(places);
        if (last)
            move.arg(rows_.values).arg(rows_.stride(rows_.values)).arg(rows_.indices).arg(rows_.stride(rows_.indices))
                .arg(cl_uint(rows_.keep));
        else
            move.arg(keys_[pass % 2]).arg(places_[pass % 2]);
        move.arg(counts_).arg(sums);
        finish(move, first || last);
    }

    Queue& queue_;
    const Rows& rows_;
    int passes_;
    std::int64_t tiles_, blocks_, sums_of_pass_;
    Tensor counts_, sums_, keys_[2], places_[2];
    std::string first_, last_;
};

}  // namespace

bool suits_digits(const Device& device, const Rows& rows)
{
    const std::size_t element = size_of(rows.input.dtype);
    if (!is_possible(device, rows.n))
        return false;
    // By launches and by bytes; merging also searches, and waits for what it compares.
    const GpuRate rate = gpu_rate(device);
    const double items = static_cast<double>(rows.n) * static_cast<double>(rows.count()),
                 clocks_of_byte = 1 / (rate.bytes * rate.engines), key = element < 8 ? 4 : 8,
                 merges = std::bit_width(static_cast<std::uint64_t>(rows.n - 1)) - 10,
                 passes = static_cast<double>(element);
    const double by_digits =
        (1 + 2 * passes) * clocks_between_launches + passes * items * (3 * key + 8) * clocks_of_byte;
    const double by_merging =
        (2 + merges) * clocks_between_launches + (2 + 1.5 * merges) * items * 4 * key * clocks_of_byte;
    return by_digits < by_merging;
}

void sort_by_digits(Queue& queue, const Rows& rows)
{
    ByDigits(queue, rows, static_cast<int>(size_of(rows.input.dtype))).run();
}

bool can_sort_numbers(const Device& device, std::int64_t count) { return is_possible(device, count); }

SortedNumbers sort_numbers(Queue& queue, const Tensor& numbers, std::int64_t bound)
{
    require(numbers.dtype == DataType::int32 && numbers.dim() == 1 && numbers.is_contiguous(),
            "sort_numbers: expected int32 numbers");
    const SortedNumbers sorted{queue.context().empty(numbers.shape, DataType::int32, queue),
                               queue.context().empty(numbers.shape, DataType::int32, queue)};
    // The digits that are looked at are all ones in -1, and nowhere else.
    const int passes = std::max(1, (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bound))) + 7) / 8);
    Tensor unsigned_numbers = numbers, unsigned_sorted = sorted.numbers;
    unsigned_numbers.dtype = unsigned_sorted.dtype = DataType::uint32;
    ByDigits(queue, Rows(unsigned_numbers, unsigned_sorted, sorted.order, 0, false), std::min(passes, 4)).run();
    return sorted;
}

}  // namespace clprim::detail
