#include <clprim/sort.hpp>

#include <bit>

#include <clprim/context.hpp>
#include <clprim/sequence.hpp>
#include <kernels/sort/digits.hpp>
#include <kernels/sort/rows.hpp>
#include <kernels/team.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

constexpr std::int64_t tile = 1024;   // items that a work-group sorts in local memory

void check(const Tensor& input, std::size_t axis, const Tensor& values, const Tensor& indices, std::string_view name)
{
    require<NotSupported>(!is_complex(input.dtype), name, ": not for ", name_of(input.dtype));
    require(axis < std::max<std::size_t>(input.dim(), 1), name, ": axis ", axis, " of a tensor with ", input.dim(),
            " dimensions");
    require(values.dtype == input.dtype && indices.dtype == DataType::int64 && values.shape == indices.shape &&
                values.dim() == input.dim(),
            name, ": values have the input's dtype, indices are int64, and both have one shape");
    for (std::size_t d = 0; d < input.dim(); ++d)
        require(d == axis ? values.size(d) <= input.size(d) : values.size(d) == input.size(d), name, ": output shape ",
                to_string(values.shape), " does not fit the input's ", to_string(input.shape));
    require<NotSupported>(!input.dim() || input.size(axis) < 0xFFFFFFFFll, name,
                          ": 2^32 or more elements along one axis");
}

using detail::add_operands;
using detail::is_wide;
using detail::Rows;

// One pass of sort_tiles over rows of n items (or elements, without `from`). With `to`, the first `keep` items of each
// block go there; without, the first `keep` elements of each row go to the outputs.
void sort_tiles(Queue& queue, const Rows& rows, const Tensor& from, const Tensor& to, std::int64_t n,
                std::int64_t keep)
{
    const std::int64_t block = std::min<std::int64_t>(std::bit_ceil(std::max<std::uint64_t>(n, 2)), tile);
    const std::int64_t blocks = rows.count() * ((n + block - 1) / block);
    const std::size_t group = std::min<std::size_t>(256, queue.device().max_work_group_size);
    const std::string options = rows.options() + " -DTILE=" + std::to_string(tile) + " -DGROUP=" +
                                std::to_string(group) + (from.defined() ? " -DFROM_ITEMS" : "") +
                                (to.defined() ? " -DTO_ITEMS" : "");
    Launch launch(queue, queue.context().program("kernels/sort/tiles.cl", options).kernel("sort_tiles"));
    add_operands(launch, rows, from, to);
    launch.arg(cl_ulong(n)).arg(cl_ulong(keep)).arg(cl_uint(block));
    rows.starts.set_argument(launch);
    launch.run(Range::groups((blocks * block + tile - 1) / tile, group));
}

// Sorted runs become sorted rows by merging, and rows of items become values and positions.
void merge_and_finish(Queue& queue, const Rows& rows, Tensor items, std::int64_t run)
{
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const std::int64_t chunk = cpu ? 256 : 4;
    const std::size_t local = detail::team_for(queue.device()).size, count = rows.count();
    const std::string wide = is_wide(rows.input.dtype) ? " -DWIDE" : "";
    const std::string options = detail::concat("-DDIMS=1 -DOPERANDS=1 -DCHUNK=", chunk,
                                               cpu ? "" : detail::concat(" -DGROUP=", local), wide);
    Kernel& merge = queue.context().program("kernels/sort/merge.cl", options).kernel("merge_runs");
    const auto range = [&](std::int64_t columns, std::size_t width) {
        Range result = Range::groups({(columns + width - 1) / width, count, 1}, {width, 1, 1});
        result.dims = 2;
        return result;
    };
    Tensor other = rows.workspace(queue, items.numel());
    for (std::int64_t width = run; width < rows.n; width *= 2) {
        queue.launch(merge, range((rows.n + chunk - 1) / chunk, local), items, other, cl_ulong(rows.n),
                     cl_ulong(width));
        std::swap(items, other);
    }
    Launch launch(queue, queue.context()
                             .program("kernels/sort/merge.cl",
                                      rows.options() + " -DCHUNK=" + std::to_string(chunk))
                             .kernel("finish"));
    launch.arg(items).arg(rows.input).arg(rows.stride(rows.input)).arg(rows.values).arg(rows.stride(rows.values))
        .arg(rows.indices).arg(rows.stride(rows.indices)).arg(cl_ulong(rows.n)).arg(cl_ulong(rows.keep));
    rows.starts.set_argument(launch);
    launch.run(range(rows.keep, 64));
}

constexpr std::int64_t few = 64;   // items that are taken one by one

// One pass of select_few on a GPU, with the operands of sort_tiles.
void select_few(Queue& queue, const Rows& rows, const Tensor& from, const Tensor& to, std::int64_t n)
{
    const std::int64_t block = std::clamp<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)), 64, tile),
                       most = std::bit_floor(std::min<std::size_t>(128, queue.device().max_work_group_size)),
                       group = std::min(most, std::max<std::int64_t>(block / 8, 32));
    const std::string options =
        detail::concat(rows.options(), " -DTILE=", block, " -DGROUP=", group, " -DMOST=", few,
                       from.defined() ? " -DFROM_ITEMS" : "", to.defined() ? " -DTO_ITEMS" : "");
    Launch launch(queue, queue.context().program("kernels/sort/select.cl", options).kernel("select_few"));
    add_operands(launch, rows, from, to);
    launch.arg(cl_ulong(n)).arg(cl_uint(rows.keep));
    rows.starts.set_argument(launch);
    launch.run(Range::groups(rows.count() * ((n + block - 1) / block), group));
}

constexpr std::int64_t most_selected = 2048;   // items that a CPU's work-item keeps

// One pass of select_best over rows of n items (or elements, without `from`), in parts. With `to`, the best of each
// part go there; without, those of the row, of one part, to the outputs.
void select_best(Queue& queue, const Rows& rows, const Tensor& from, const Tensor& to, std::int64_t n,
                 std::int64_t parts)
{
    const std::string options =
        rows.options() + " -DKEEP=" + std::to_string(std::bit_ceil(static_cast<std::uint64_t>(rows.keep))) +
        (from.defined() ? " -DFROM_ITEMS" : "") + (to.defined() ? " -DTO_ITEMS" : "");
    Launch launch(queue, queue.context().program("kernels/sort/cpu_select.cl", options).kernel("select_best"));
    add_operands(launch, rows, from, to);
    launch.arg(cl_ulong(n)).arg(cl_uint(rows.keep)).arg(cl_ulong((n + parts - 1) / parts));
    rows.starts.set_argument(launch);
    launch.run(Range::groups({static_cast<std::size_t>(parts), static_cast<std::size_t>(rows.count()), 1}, {1, 1, 1}));
}

// Few of many, on CPUs: several parts of a row where there are few rows, each long enough to be worth its best.
void select_rows(Queue& queue, const Rows& rows)
{
    const std::int64_t wanted = 4 * std::int64_t{queue.device().compute_units} / rows.count(),
                       most = rows.n / std::max<std::int64_t>(8192, 16 * rows.keep);
    const std::int64_t parts = std::max<std::int64_t>(std::min(wanted, most), 1);
    if (parts == 1)
        return select_best(queue, rows, {}, {}, rows.n, 1);
    const Tensor items = rows.workspace(queue, rows.count() * parts * rows.keep);
    select_best(queue, rows, {}, items, rows.n, parts);
    select_best(queue, rows, items, {}, parts * rows.keep, 1);
}

// Long rows, on CPUs: a launch to count and one to move the items for each digit of their keys.
void sort_digits(Queue& queue, const Rows& rows)
{
    const std::int64_t count = rows.count(), units = std::max<std::int64_t>(queue.device().compute_units, 1),
                       blocks = std::clamp<std::int64_t>(4 * units / count, 1, 64);
    const Tensor items = rows.workspace(queue, count * rows.n), other = rows.workspace(queue, count * rows.n),
                 differences = queue.context().empty({count * blocks}, DataType::uint64, queue),
                 counts = queue.context().empty({count * blocks * 256}, DataType::uint32, queue);
    const Program& program = queue.context().program("kernels/sort/cpu_digits.cl", rows.options());
    const Range range =
        Range::groups({static_cast<std::size_t>(blocks), static_cast<std::size_t>(count), 1}, {1, 1, 1});
    const cl_ulong n = rows.n;
    Launch begin(queue, program.kernel("begin_digits"));
    begin.arg(rows.input).arg(rows.stride(rows.input)).arg(items).arg(differences).arg(n);
    rows.starts.set_argument(begin);
    begin.run(range);
    for (cl_uint digit = 0; digit < (is_wide(rows.input.dtype) ? 8 : 4); ++digit)
        for (const char* kernel : {"count_digits", "move_by_digit"})
            queue.launch(program.kernel(kernel), range, items, other, differences, counts, n, digit);
    Launch end(queue, program.kernel("end_digits"));
    end.arg(items).arg(other).arg(differences);
    add_operands(end, rows, {}, {});
    end.arg(n);
    rows.starts.set_argument(end);
    end.run(range);
}

constexpr std::int64_t cpu_run = 4096;      // elements that a CPU's work-item sorts
constexpr std::int64_t by_digits = 65536;   // elements from which on all threads sort a row

// Whole rows, on CPUs.
void sort_runs(Queue& queue, const Rows& rows)
{
    if (rows.n >= by_digits && rows.keep == rows.n)
        return sort_digits(queue, rows);
    const bool one = rows.n <= cpu_run;
    const Tensor items = one ? Tensor() : rows.workspace(queue, rows.count() * rows.n);
    const std::string options =
        rows.options() + " -DRUN=" +
        std::to_string(one ? std::bit_ceil(static_cast<std::uint64_t>(rows.n)) : std::uint64_t{cpu_run}) +
        (one ? "" : " -DTO_ITEMS");
    Launch launch(queue, queue.context().program("kernels/sort/cpu_runs.cl", options).kernel("sort_runs"));
    add_operands(launch, rows, {}, items);
    const std::int64_t runs = (rows.n + cpu_run - 1) / cpu_run, each = std::max<std::int64_t>(cpu_run / 4 / rows.n, 1),
                       blocks = (rows.count() + each - 1) / each;
    launch.arg(cl_ulong(rows.n)).arg(cl_ulong(rows.keep)).arg(cl_uint(each));
    rows.starts.set_argument(launch);
    launch.run(Range::groups({static_cast<std::size_t>(runs), static_cast<std::size_t>(blocks), 1}, {1, 1, 1}));
    if (!one)
        merge_and_finish(queue, rows, items, cpu_run);
}

void sort_rows(Queue& queue, const Rows& rows)
{
    if (queue.device().kind == DeviceKind::cpu)
        return rows.keep <= most_selected && rows.keep * 4 <= rows.n ? select_rows(queue, rows)
                                                                     : sort_runs(queue, rows);
    const bool takes_few = rows.keep <= few && rows.keep * 8 <= rows.n;
    if (rows.n <= tile && !takes_few)
        return sort_tiles(queue, rows, {}, {}, rows.n, rows.keep);
    if (rows.keep * 4 > tile) {
        if (detail::suits_digits(queue.device(), rows))
            return detail::sort_by_digits(queue, rows);
        const Tensor items = rows.workspace(queue, rows.count() * rows.n);
        sort_tiles(queue, rows, {}, items, rows.n, tile);
        return merge_and_finish(queue, rows, items, tile);
    }
    // Few are wanted: each tile passes on its best ones, until the row fits into a tile.
    Tensor items;
    for (std::int64_t n = rows.n;;) {
        if (n <= tile)
            return takes_few ? select_few(queue, rows, items, {}, n)
                             : sort_tiles(queue, rows, items, {}, n, rows.keep);
        const std::int64_t kept = (n + tile - 1) / tile * rows.keep;
        const Tensor next = rows.workspace(queue, rows.count() * kept);
        if (takes_few)
            select_few(queue, rows, items, next, n);
        else
            sort_tiles(queue, rows, items, next, n, rows.keep);
        items = next;
        n = kept;
    }
}

}  // namespace

void sort(Queue& queue, const Tensor& input, std::size_t axis, bool descending, const Tensor& values,
          const Tensor& indices)
{
    detail::check_operands("sort", {{"input", input}, {"values", values}, {"indices", indices}});
    check(input, axis, values, indices, "sort");
    require(values.shape == input.shape, "sort: output of shape ", to_string(values.shape), " for an input of ",
            to_string(input.shape));
    if (input.numel() != 0)
        sort_rows(queue, Rows(input, values, indices, axis, descending));
}

void topk(Queue& queue, const Tensor& input, std::size_t axis, bool largest, const Tensor& values,
          const Tensor& indices)
{
    detail::check_operands("topk", {{"input", input}, {"values", values}, {"indices", indices}});
    check(input, axis, values, indices, "topk");
    if (values.numel() != 0)
        sort_rows(queue, Rows(input, values, indices, axis, largest));
}

void mode(Queue& queue, const Tensor& sorted, const Tensor& order, const Tensor& values, const Tensor& indices)
{
    detail::check_operands("mode", {{"sorted", sorted}, {"order", order}, {"values", values}, {"indices", indices}});
    require(sorted.dim() > 0 && sorted.is_contiguous() && order.is_contiguous() && values.is_contiguous() &&
                indices.is_contiguous() && order.shape == sorted.shape,
            "mode: tensors must be contiguous, with rows along the last axis");
    require(values.dtype == sorted.dtype && order.dtype == DataType::int64 && indices.dtype == DataType::int64,
            "mode: values must have the input's dtype, ", name_of(sorted.dtype), ", order and indices int64; got ",
            name_of(values.dtype), ", ", name_of(order.dtype), " and ", name_of(indices.dtype));
    const cl_ulong n = sorted.shape.back();
    const cl_ulong rows = values.numel();
    require(rows * n == static_cast<cl_ulong>(sorted.numel()), "mode: ", values.numel(), " results for an input of ",
            to_string(sorted.shape));
    require(indices.numel() == values.numel(), "mode: ", indices.numel(), " indices for ", values.numel(), " values");
    if (rows == 0)
        return;
    const Device& device = queue.device();
    const std::size_t team = detail::team_for(device).size,
                      used = std::min<std::size_t>(team, std::bit_ceil(std::max<cl_ulong>(n / 4, 1)));
    const std::string options = detail::concat("-DT=", name_of(sorted.dtype), " -DTEAM=", team);
    Kernel& kernel = queue.context().program("kernels/sort/mode.cl", options).kernel("mode");
    queue.launch(kernel, device.kind == DeviceKind::cpu ? Range::linear(rows, 64) : Range::groups(rows, used), sorted,
                 order, values, indices, rows, n);
}

void searchsorted(Queue& queue, const SearchSorted& search, const Tensor& values, const Tensor& out)
{
    detail::check_operands("searchsorted", {{"boundaries", search.boundaries},
                                            {"sorter", search.sorter, detail::optional}, {"values", values},
                                            {"out", out}});
    const Tensor& boundaries = search.boundaries;
    require(boundaries.dim() > 0 && boundaries.dtype == values.dtype,
            "searchsorted: boundaries and values need one real dtype");
    require<NotSupported>(!is_complex(values.dtype), "searchsorted: not for ", name_of(values.dtype));
    require(boundaries.is_contiguous() && values.is_contiguous() && out.is_contiguous() && out.shape == values.shape,
            "searchsorted: tensors must be contiguous, and the output has the values' shape");
    const bool one_row = boundaries.dim() == 1;
    for (std::size_t d = 0; !one_row && d + 1 < boundaries.dim(); ++d)
        require(values.dim() == boundaries.dim() && values.size(d) == boundaries.size(d),
                "searchsorted: rows of boundaries ", to_string(boundaries.shape), " and values ",
                to_string(values.shape), " differ");
    const cl_ulong n = values.numel();
    if (n == 0)
        return;
    const bool sorted_by = search.sorter.defined();
    const std::string options = "-DT=" + std::string(name_of(values.dtype)) + " -DOUT=" +
                                std::string(name_of(out.dtype)) + (search.right ? " -DRIGHT" : "") +
                                (sorted_by ? " -DSORTER" : "");
    Launch launch(queue, queue.context().program("kernels/sort/search.cl", options).kernel("search"));
    launch.arg(boundaries).arg(values).arg(out);
    if (sorted_by)
        launch.arg(search.sorter);
    launch.arg(n).arg(cl_ulong(boundaries.shape.back())).arg(one_row ? cl_ulong(0) : cl_ulong(values.shape.back()));
    launch.run(Range::linear(n, 64));
}

void repeat_positions(Queue& queue, const Tensor& ends, const Tensor& out)
{
    detail::check_operands("repeat_positions", {{"ends", ends}, {"out", out}});
    const auto counts = [](const Tensor& tensor) {
        return tensor.dim() == 1 && tensor.is_contiguous() &&
               (tensor.dtype == DataType::int32 || tensor.dtype == DataType::int64);
    };
    require(counts(ends) && counts(out), "repeat_positions: ends and out are contiguous vectors of int32 or int64");
    if (out.numel() == 0)
        return;
    if (queue.device().kind != DeviceKind::cpu) {
        const Tensor places = queue.context().empty(out.shape, ends.dtype, queue);
        arange(queue, places, std::int64_t{0}, std::int64_t{1});
        return searchsorted(queue, {.boundaries = ends, .right = true}, places, out);
    }
    const std::string options =
        "-DT=" + std::string(name_of(ends.dtype)) + " -DOUT=" + std::string(name_of(out.dtype));
    const std::int64_t n = ends.numel(), units = std::max<std::int64_t>(queue.device().compute_units, 1),
                       each = std::max<std::int64_t>(n / (16 * units), 256);
    queue.launch(queue.context().program("kernels/sort/cpu_repeat.cl", options).kernel("repeat"),
                 Range::groups(static_cast<std::size_t>((n + each - 1) / each), 1), ends, out, cl_ulong(n),
                 cl_ulong(each), cl_long{out.numel()});
}

}  // namespace clprim
