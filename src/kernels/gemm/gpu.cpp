// Launches gpu_tiled.cl and gpu_dot.cl.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <core/matrix_engine.hpp>
#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/gemm/gpu_tile.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t side = 16;   // of gpu_dot.cl
constexpr std::int64_t few_rows = 4;

Rejection unsuitable(const GemmProblem& problem, const Device& device, std::size_t items)
{
    if (device.kind != DeviceKind::gpu)
        return "for GPUs";
    if (is_complex(problem.dtype))
        return "complex";
    if (problem.k == 0)
        return "k is 0";
    if (device.max_work_group_size < items)
        return fmt::format("work-groups of less than {} work-items", items);
    return std::nullopt;
}

// Whether all matrices can be read and written four elements at a time.
bool all_aligned(const GemmProblem& p, const GemmTensors& t)
{
    return operands_in_groups(4, p, t) && in_groups(4, t.c, p.n, p.c.column, p.c.row, p.c.batch);
}

// Which of gpu_tiled.cl's ways to read and write fits the matrices as they lie. Neighbours that are along k in both
// give RDNA 3 sums in registers that its pairs of instructions do not reach.
std::string layout_options(const GemmProblem& p, const GemmTensors& t, const Device& device)
{
    const bool aligned = all_aligned(p, t);
    const bool pairs_lost = a_along_k(p) && b_along_k(p) && matrix_engine(device).engine == MatrixEngine::wmma;
    const bool neighbours =
        !aligned && !pairs_lost && p.dtype == DataType::float32 && has_neighbours(4, p, t);
    return fmt::format(" -DA_ALONG_K={:d} -DB_ALONG_K={:d} -DALIGNED={:d} -DOFFSET={}{}", a_along_k(p), b_along_k(p),
                       aligned, offset_type(p), neighbours ? " -DNEIGHBOURS=1" : "");
}

bool on_nvidia(const Device& device) { return device.has_extension("cl_nv_compiler_options"); }

// NVIDIA: two groups on a multiprocessor need 128 registers at most; its compiler likes to take a few more.
int large_registers(const Device& device, std::int64_t lines)
{
    return lines == 128 && on_nvidia(device) ? 128 : 0;
}

// A work-item of the smallest tile has few sums.
int tile_sub_group(const Device& device, std::int64_t lines) { return lines > 32 ? spilling_sub_group(device) : 0; }

}  // namespace

bool has_eights(const Device& device)
{
    return std::ranges::find(device.sub_group_sizes, std::size_t{8}) != device.sub_group_sizes.end();
}

int spilling_sub_group(const Device& device)
{
    const auto& sizes = device.sub_group_sizes;
    return !sizes.empty() && std::ranges::min(sizes) == 16 && device.has_extension("cl_intel_required_subgroup_size")
               ? 16 : 0;
}

std::string GpuTile::options() const
{
    return fmt::format(" -DTILE={} -DSLAB_K={}", lines, slab_k) +
           (registers ? fmt::format(" -cl-nv-maxrregcount={}", registers) : "") +
           (sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : "");
}

Workload GpuTile::work(const GpuRate& rate, double groups, double depth) const
{
    // Of the instructions of loops that are FMAs (docs/gpu_kernels.md); float64 and other types are slower throughout.
    const double share = lines == 128 ? 0.85 : lines == 64 ? 0.65 : 0.45, sums = static_cast<double>(lines * lines);
    const double sub_groups = static_cast<double>(items()) / (rate.products >= 32 ? 32 : 16);
    const double engines = std::min(rate.engines / rate.cores, sub_groups);
    return {groups, engines, sums * depth / (engines * rate.products * share), sub_groups / engines};
}

std::size_t GpuTile::local_memory(DataType real) const
{
    return static_cast<std::size_t>(2 * slab_k * (lines + 4)) * size_of(real);
}

Space gpu_tile_space(const GpuTile& usual)
{
    const std::vector<std::int64_t> lines =
        usual.lines == 32 ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{32, 64, 128};
    return {{"tile", lines, usual.lines}, {"slab", {8, 16, 32}, usual.slab_k}};
}

GpuTile gpu_tile_at(const Point& point, const Device& device, DataType real)
{
    const GpuTile tile{point.at("tile"), point.at("slab"), large_registers(device, point.at("tile")),
                       tile_sub_group(device, point.at("tile"))};
    require<NotSupported>(tile.lines * tile.slab_k >= 4 * tile.items(), "tiles of ", tile.lines,
                          " need slabs of more than ", tile.slab_k);
    require<NotSupported>(device.max_work_group_size >= static_cast<std::size_t>(tile.items()), "tiles of ", tile.lines,
                          " need work-groups of ", tile.items());
    require<NotSupported>(device.local_memory >= tile.local_memory(real), "tiles of ", tile.lines, " with slabs of ",
                          tile.slab_k, " need ", tile.local_memory(real), " bytes of local memory");
    return tile;
}

namespace {

// Whether `tiles` large ones keep all cores busy. Xe cores hold four groups, and need two, of which the last ones to
// run may leave others idle; a large tile takes as long as three and a half small ones.
bool large_tiles_pay(const Device& device, std::int64_t tiles)
{
    const auto cores = static_cast<std::int64_t>(gpu_rate(device).cores);
    if (cores == device.compute_units)
        return tiles >= cores;
    return tiles >= 2 * cores && 7 * divide_up(tiles, cores) <= 2 * divide_up(4 * tiles, cores);
}

}  // namespace

GpuTile gpu_tile(const Device& device, DataType real, std::int64_t large_tiles)
{
    if (device.max_work_group_size < 256)
        return {32, 16};
    if (real != DataType::float32 || !large_tiles_pay(device, large_tiles))
        return {64, 16, 0, tile_sub_group(device, 64)};
    // Deeper slabs give a loop more sums for its loads and barriers. Intel's compiler for sub-groups of 16 and more
    // keeps the sums in registers with the short ones only.
    const bool deep = device.vendor.starts_with("Advanced Micro Devices") || device.vendor.starts_with("AMD") ||
                      has_eights(device);
    return {128, deep ? 16 : 8, large_registers(device, 128), tile_sub_group(device, 128)};
}

Rejection gpu_dot_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device, side * side))
        return reason;
    if (std::min(problem.m, problem.n) > few_rows)
        return "more than 4 rows and columns";
    return std::nullopt;
}

void gpu_dot(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = asked.n < asked.m;
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    const bool along_k = b_along_k(problem);
    const bool aligned = along_k ? in_groups(4, tensors.b, problem.k, problem.b.row, problem.b.column, problem.b.batch)
                                 : in_groups(4, tensors.b, problem.n, problem.b.column, problem.b.row, problem.b.batch);
    const std::int64_t rows = problem.m == 1 ? 1 : few_rows, columns = along_k ? side : 4 * side;
    // Single elements of several rows take addresses of their own.
    const int sub_group = rows > 1 && !aligned ? spilling_sub_group(queue.device()) : 0;
    const Program& program = queue.context().program(
        "kernels/gemm/gpu_dot.cl", fmt::format("{} -DB_ALONG_K={:d} -DALIGNED={:d} -DROWS={}{}",
                                               gemm_options(problem.dtype), along_k, aligned, rows,
                                               sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : ""));
    const GpuRate rate = gpu_rate(queue.device());
    const std::int64_t x = divide_up(problem.n, columns), y = divide_up(problem.m, rows);
    const double bytes = static_cast<double>(columns * problem.k) * static_cast<double>(size_of(problem.dtype));
    const double engines = rate.engines / rate.cores;
    const Workload work{static_cast<double>(x * y * problem.batch), engines, bytes / (engines * rate.bytes), 2, true};
    const std::int64_t splits = best_splits(rate, problem, work, 256).count;
    launch_cut(queue, program, problem, tensors, gpu_cut(problem, x, y, splits, 256), {side, side});
}

Rejection gpu_tiled_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device, smallest_tile_items))
        return reason;
    const DataType real = gemm_compute_type(problem.dtype);
    if (device.local_memory < gpu_tile(device, real, 0).local_memory(real))
        return "too little local memory";
    return std::nullopt;
}

namespace {

constexpr std::int64_t tiled_split_step = 128;

struct TiledPlan {
    GpuTile tile;
    std::int64_t splits;
};

// Of one work-group with all of k.
Workload tiled_work(const GpuRate& rate, const GemmProblem& problem, const GpuTile& tile)
{
    const double groups = static_cast<double>(divide_up(problem.n, tile.lines) * divide_up(problem.m, tile.lines) *
                                              problem.batch);
    return tile.work(rate, groups, static_cast<double>(problem.k));
}

GpuTile usual_tile(const GemmProblem& problem, const Device& device)
{
    // A large tile of few rows or columns would mostly compute what is not written.
    const std::int64_t large = std::min(problem.m, problem.n) < 96
                                   ? 0 : divide_up(problem.m, 128) * divide_up(problem.n, 128) * problem.batch;
    return gpu_tile(device, gemm_compute_type(problem.dtype), large);
}

Parts usual_splits(const GemmProblem& problem, const Device& device, const GpuTile& tile)
{
    const GpuRate rate = gpu_rate(device);
    return best_splits(rate, problem, tiled_work(rate, problem, tile), tiled_split_step);
}

TiledPlan usual_plan(const GemmProblem& problem, const Device& device)
{
    const GpuTile tile = usual_tile(problem, device);
    return {tile, usual_splits(problem, device, tile).count};
}

void run_tiled(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors, const TiledPlan& plan)
{
    const GpuCut cut = gpu_cut(problem, divide_up(problem.n, plan.tile.lines), divide_up(problem.m, plan.tile.lines),
                               plan.splits, tiled_split_step);
    const bool partial = cut.splits > 1;
    const std::string options =
        gemm_options(problem.dtype) + plan.tile.options() + layout_options(problem, tensors, queue.device()) +
        fmt::format(" -DCOUNTED={:d} -DLEFT={} -DPARTIAL={:d} -DADD_D={:d} -DACTIVATION={}",
                    has_eights(queue.device()), on_nvidia(queue.device()) ? "int" : "long", partial,
                    problem.add_d && !partial, partial ? 0 : static_cast<int>(problem.activation));
    launch_cut(queue, queue.context().program("kernels/gemm/gpu_tiled.cl", options), problem, tensors, cut,
               {static_cast<std::size_t>(plan.tile.side()), static_cast<std::size_t>(plan.tile.side())});
}

}  // namespace

double gpu_tiled_clocks(const GemmProblem& problem, const Device& device)
{
    return usual_splits(problem, device, usual_tile(problem, device)).clocks;
}

void gpu_tiled(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    run_tiled(queue, problem, tensors, usual_plan(problem, queue.device()));
}

Space gpu_tiled_space(const GemmProblem& asked, const Device& device)
{
    const TiledPlan plan = usual_plan(better_turned(asked) ? transposed(asked) : asked, device);
    Space space = gpu_tile_space(plan.tile);
    space.push_back({"splits", {1, 2, 4, 8, 16, 32}, plan.splits});
    return space;
}

void gpu_tiled_at(Queue& queue, const GemmProblem& asked, const Point& point, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GpuTile tile = gpu_tile_at(point, queue.device(), gemm_compute_type(problem.dtype));
    run_tiled(queue, problem, turned ? transposed(given) : given, {tile, point.at("splits")});
}

}  // namespace clprim::detail
