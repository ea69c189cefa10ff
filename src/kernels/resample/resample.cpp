#include <clprim/resample.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <core/lru_cache.hpp>
#include <core/operands.hpp>
#include <kernels/resample/tables.hpp>
#include <kernels/team.hpp>

namespace clprim {
namespace {

// resample_t of axes.cl
struct Sizes {
    cl_int in[3], out[3], taps[3];
    cl_uint channels, planes;
};

template <class Acc>
using Tables = std::array<std::shared_ptr<const detail::TapTable<Acc>>, 3>;

constexpr int vector_lanes = 16, most_columns = 256, most_length = 2048;

// An axis of a resampling.
struct Axis {
    Resampling how;
    std::int64_t in = 1, out = 1;
    double factor = 0;
    bool backward = false;

    std::string key() const
    {
        return detail::concat(static_cast<int>(how.filter), how.align_corners, backward, ' ', in, ' ', out, ' ',
                              std::bit_cast<std::uint64_t>(factor));
    }
};

// What `make` computes under that name. Networks ask for few: they are kept.
template <class Made, class Make>
std::shared_ptr<const Made> kept(const std::string& key, const Make& make)
{
    using Entry = std::shared_ptr<const Made>;
    static auto* entries = new LruCache<std::string, Entry>(64);   // never destroyed: queues may outlive it
    return entries->get(key, [&]() -> Entry { return std::make_shared<Made>(make()); });
}

template <class Acc>
std::shared_ptr<const detail::TapTable<Acc>> kept_table(const Axis& axis)
{
    return kept<detail::TapTable<Acc>>(
        axis.key(), [&] { return detail::tap_table<Acc>(axis.how, axis.in, axis.out, axis.factor, axis.backward); });
}

template <class Acc>
std::shared_ptr<const detail::TapLanes<Acc>> kept_lanes(const Axis& axis, const detail::TapTable<Acc>& table,
                                                        int channels)
{
    return kept<detail::TapLanes<Acc>>(detail::concat(axis.key(), ' ', channels),
                                       [&] { return detail::tap_lanes(table, channels); });
}

// Numbers of type Acc and ints in memory of the device, in one buffer.
template <class Acc>
std::pair<Tensor, Tensor> upload(Queue& queue, std::span<const std::span<const Acc>> weights,
                                 std::span<const std::span<const cl_int>> places)
{
    std::vector<std::byte> bytes;
    const auto append = [&](const auto& values) {
        const auto data = std::as_bytes(values);
        bytes.insert(bytes.end(), data.begin(), data.end());
    };
    for (const auto& values : weights)
        append(values);
    const std::size_t numbers = bytes.size() / sizeof(Acc), first = bytes.size() / sizeof(cl_int);
    for (const auto& values : places)
        append(values);
    const Tensor all = queue.context().empty({static_cast<std::int64_t>(bytes.size())}, DataType::uint8, queue);
    queue.write(*all.memory, 0, bytes.data(), bytes.size());
    const auto part = [&](DataType type, std::size_t from, std::size_t to) {
        const Dims shape{static_cast<std::int64_t>(to - from)};
        return Tensor(all.memory, static_cast<std::int64_t>(from), type, shape, contiguous_strides(shape));
    };
    return {part(sizeof(Acc) == 8 ? DataType::float64 : DataType::float32, 0, numbers),
            part(DataType::int32, first, bytes.size() / sizeof(cl_int))};
}

// Weights and places of all axes, as axes.cl finds them.
template <class Acc>
std::pair<Tensor, Tensor> upload(Queue& queue, const Tables<Acc>& tables)
{
    std::vector<std::span<const Acc>> weights;
    std::vector<std::span<const cl_int>> places;
    for (const auto& table : tables) {
        weights.emplace_back(table->weights);
        places.emplace_back(table->first), places.emplace_back(table->count);
    }
    return upload<Acc>(queue, weights, places);
}

// The most elements that `columns` places from a multiple of as many read.
template <class Acc>
int longest(const detail::TapTable<Acc>& table, int columns)
{
    int most = 0;
    for (int o = 0; o < table.places(); o += columns)
        most = std::max(most, table.end(std::min(o + columns, table.places()) - 1) - table.begin(o));
    return most;
}

// How a CPU's kernels cut lines into columns; none where 16 places read too many elements.
struct Columns {
    int count = most_columns, length = 0;
};

template <class Acc>
std::optional<Columns> columns_of(const detail::TapTable<Acc>& table)
{
    for (Columns c; c.count >= vector_lanes; c.count /= 2)
        if (c.length = longest(table, c.count); c.length <= most_length)
            return Columns{c.count, std::max(static_cast<int>(std::bit_ceil(unsigned(c.length))), 64)};
    return std::nullopt;
}

constexpr std::size_t blocks(std::size_t all, std::size_t of) { return (all + of - 1) / of; }

void check(const Tensor& x, const Tensor& y, bool backward)
{
    require(x.dim() >= 3 && x.dim() <= 5 && y.dim() == x.dim() && x.size(0) == y.size(0) && x.size(1) == y.size(1) &&
                x.dtype == y.dtype,
            "resample: shapes or dtypes do not fit: ", to_string(x.shape), " and ", to_string(y.shape));
    require((x.is_contiguous() && y.is_contiguous()) || (x.is_channels_last() && y.is_channels_last()),
            "resample: both sides must be contiguous or both channels_last");
    require(is_floating_point(x.dtype) || (x.dtype == DataType::uint8 && !backward), "resample: no kernel for ",
            name_of(x.dtype));
    require(x.numel() != 0 || y.numel() == 0, "resample: sizes must be positive, got ", to_string(x.shape), " and ",
            to_string(y.shape));
    for (const Tensor* t : {&x, &y})
        require(t->numel() == 0 || t->numel() / (t->size(0) * t->size(1)) < std::int64_t{1} << 31,
                "resample: planes of 2^31 elements or more are not supported, got ", to_string(t->shape));
}

// Of x, which is read, and y, each element of which is written once.
template <class Acc>
class Call {
public:
    Call(const Tensor& x, const Tensor& y, const Resampling& how, bool backward)
        : x_(x), y_(y), channels_last_(!(x.is_contiguous() && y.is_contiguous()))
    {
        const std::size_t rank = x.dim() - 2;
        bool even = true;
        for (std::size_t i = 0; i < 3; ++i) {
            tables_[i] = std::make_shared<detail::TapTable<Acc>>();
            if (i + rank >= 3) {
                const std::size_t axis = i + rank - 3;
                const std::int64_t in = backward ? y.size(axis + 2) : x.size(axis + 2),
                                   out = backward ? x.size(axis + 2) : y.size(axis + 2);
                axis_ = {how, in, out, how.scale_factors[axis], backward};
                tables_[i] = kept_table<Acc>(axis_);
                even &= !tables_[i]->uneven && (axis == 0 || tables_[i]->taps == tables_[i - 1]->taps);
            }
            sizes_.in[i] = tables_[i]->size;
            sizes_.out[i] = tables_[i]->places();
            sizes_.taps[i] = tables_[i]->taps;
        }
        taps_ = even && sizes_.taps[2] <= 4 ? sizes_.taps[2] : 0;
        sizes_.channels = static_cast<cl_uint>(x.size(1));
        sizes_.planes = static_cast<cl_uint>(x.size(0) * x.size(1));
        options_ = detail::concat(detail::define("X", x.dtype), sizeof(Acc) == 8 ? " -DACC=double" : " -DACC=float",
                                  " -DDIMS=", rank, " -DTAPS=", taps_, x.dtype == DataType::uint8 ? " -DBYTES" : "",
                                  how.filter <= Filter::nearest_exact ? " -DUNWEIGHTED" : "");
    }

    void run(Queue& queue) const
    {
        if (queue.device().kind != DeviceKind::cpu) {
            run_elements(queue, 4);
        } else if (run_windows(queue)) {
            return;
        } else if (channels_last_) {
            if (const std::size_t columns = pixel_columns(); columns > 0)
                run_lines(queue, "kernels/resample/cpu_pixel_lines.cl", "resample_pixel_lines", pixels(columns),
                          detail::concat(" -DTOGETHER=", lanes(), " -DMOST=", most_length,
                                         sizes_.channels >= vector_lanes ? " -DVECTORS" : ""),
                          static_cast<cl_uint>(columns));
            else
                run_lines(queue, "kernels/resample/cpu_pixels.cl", "resample_pixels", pixels(vector_lanes),
                          detail::concat(" -DCOLUMNS=", vector_lanes));
        } else if (const auto cut = columns_of(*tables_[2])) {
            run_lines(queue, "kernels/resample/cpu_rows.cl", "resample_rows", {width(), std::size_t(cut->count), 1},
                      detail::concat(" -DCOLUMNS=", cut->count, " -DLENGTH=", cut->length));
        } else {
            run_elements(queue, 1);
        }
    }

private:
    std::size_t rows() const { return std::size_t(sizes_.out[0]) * std::size_t(sizes_.out[1]); }
    std::size_t images() const { return sizes_.planes / sizes_.channels; }

    // By resample.cl, whose PLANES are `together`.
    void run_elements(Queue& queue, std::size_t together) const
    {
        std::string options = options_;
        if (channels_last_)
            options += " -DCHANNELS_LAST";
        if (channels_last_ && together == 4 && (x_.size(1) | x_.buffer_offset() | y_.buffer_offset()) % 4 == 0)
            options += " -DQUADS";
        else if (together > 1 && (channels_last_ ? sizes_.channels : sizes_.planes) % together == 0)
            options += " -DWHOLE";
        const auto columns = static_cast<std::size_t>(sizes_.out[2]);
        const Range range =
            channels_last_ ? detail::plane_range(queue.device(), blocks(sizes_.channels, together), columns,
                                                 images() * rows())
                           : detail::plane_range(queue.device(), columns, rows(), blocks(sizes_.planes, together));
        const auto [weights, places] = upload<Acc>(queue, tables_);
        queue.launch(queue.context().program("kernels/resample/resample.cl", options).kernel("resample"), range, x_, y_,
                     places, weights, sizes_);
    }

    // Channels that cpu_pixel_lines.cl takes at a time.
    int lanes() const
    {
        return sizes_.channels <= 4 ? 4 : sizes_.channels <= 8 ? 8 : vector_lanes;
    }

    // Places of a line that a work-item of cpu_pixel_lines.cl owns; none where cpu_pixels.cl, which adds up what each
    // place reads by itself, has less to do.
    std::size_t pixel_columns() const
    {
        const auto channels = static_cast<std::int64_t>(sizes_.channels);
        int columns = most_columns;
        while (columns > 0 && std::max(longest(*tables_[2], columns), columns) * channels > most_length)
            columns /= 2;
        if (columns == 0)
            return 0;
        // Vectors that are read for a line of y: elements beside whole vectors are loaded one by one.
        const double lines = double(sizes_.taps[0]) * sizes_.taps[1], width = sizes_.out[2];
        const double apart = double(blocks(channels, vector_lanes)) * (channels % vector_lanes ? vector_lanes : 1);
        const double shared = blocks(width, columns) * double(longest(*tables_[2], columns) * channels) / vector_lanes;
        const double taken = double(blocks(channels, lanes()));
        return lines * shared + width * sizes_.taps[2] * taken < lines * width * sizes_.taps[2] * apart ? columns : 0;
    }

    // By cpu_windows.cl; false where what a vector takes lies too far apart, or vectors of channels do as well.
    bool run_windows(Queue& queue) const
    {
        const int channels = channels_last_ ? static_cast<int>(std::min<cl_uint>(sizes_.channels, vector_lanes)) : 1;
        const std::size_t elements = width() * static_cast<std::size_t>(channels);
        const std::size_t read = static_cast<std::size_t>(sizes_.in[2]) * static_cast<std::size_t>(channels);
        if (channels == vector_lanes || std::max(elements, read) >= 1 << 30)
            return false;
        const auto lanes = kept_lanes(axis_, *tables_[2], channels);
        const auto windows = std::bit_ceil(blocks(static_cast<std::size_t>(lanes->span), vector_lanes));
        if (windows > 8 * sizeof(float) / sizeof(Acc))   // vectors in registers
            return false;
        constexpr std::size_t columns = most_columns, block = columns / vector_lanes;
        const std::size_t vectors = blocks(elements, vector_lanes);
        int length = 64;
        for (std::size_t i = 0; i < vectors; i += block) {
            const std::size_t last = std::min(i + block, vectors) - 1;
            length = std::max(length, lanes->lanes[vectors + last] - lanes->lanes[i]);
        }
        const auto [factors, numbers] = upload<Acc>(queue, std::array{std::span(lanes->weights)},
                                                    std::array{std::span(lanes->lanes)});
        run_lines(queue, "kernels/resample/cpu_windows.cl", "resample_windows", {elements, columns, 1},
                  detail::concat(" -DCOLUMNS=", columns, " -DLENGTH=", std::bit_ceil(unsigned(length)), " -DWINDOWS=",
                                 windows),
                  numbers, factors, static_cast<cl_uint>(channels));
        return true;
    }

    // How lines of y are cut: places, those of a work-item, elements of each.
    struct Line {
        std::size_t width, columns, channels;
    };

    std::size_t width() const { return static_cast<std::size_t>(sizes_.out[2]); }
    Line pixels(std::size_t columns) const { return {width(), columns, sizes_.channels}; }

    // By a CPU's kernel, whose work-items own blocks of some lines.
    template <class... Arguments>
    void run_lines(Queue& queue, const char* file, const char* kernel, const Line& line, const std::string& options,
                   Arguments... arguments) const
    {
        const std::size_t parts = blocks(line.width, line.columns);
        const std::size_t lines = rows() * (channels_last_ ? images() : sizes_.planes);
        const std::size_t line_elements = std::min(line.columns, line.width) * line.channels;
        // Some ten microseconds a work-item, but several for each core.
        const std::size_t most = lines * parts / (4 * std::size_t{queue.device().compute_units});
        const std::size_t each = std::min(blocks(8192, line_elements), std::max<std::size_t>(most, 1));
        const auto [weights, places] = upload<Acc>(queue, tables_);
        const Program& program = queue.context().program(file, options_ + options);
        queue.launch(program.kernel(kernel), Range::groups({parts, blocks(lines, each), 1}, {1, 1, 1}), x_, y_, places,
                     weights, sizes_, static_cast<cl_uint>(each), arguments...);
    }

    const Tensor &x_, &y_;
    bool channels_last_;
    Tables<Acc> tables_;
    Sizes sizes_{};
    int taps_ = 0;   // of all places and axes, or 0
    Axis axis_;      // x
    std::string options_;
};

void run(Queue& queue, const Tensor& x, const Tensor& y, const Resampling& how, bool backward)
{
    check(x, y, backward);
    if (y.numel() == 0)
        return;
    if (x.dtype == DataType::float64)
        Call<double>(x, y, how, backward).run(queue);
    else
        Call<float>(x, y, how, backward).run(queue);
}

}  // namespace

void resample(Queue& queue, const Tensor& x, const Tensor& y, const Resampling& how)
{
    detail::check_operands("resample", {{"x", x}, {"y", y}});
    run(queue, x, y, how, false);
}

void resample_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Resampling& how)
{
    detail::check_operands("resample_backward", {{"grad_output", grad_output}, {"grad_input", grad_input}});
    run(queue, grad_output, grad_input, how, true);
}

}  // namespace clprim
