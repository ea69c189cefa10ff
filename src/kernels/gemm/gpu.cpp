// Launches gpu_tiled.cl and gpu_dot.cl.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include <core/matrix_engine.hpp>
#include <kernels/gemm/gpu_cut.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/gemm/gpu_tile.hpp>

namespace clprim::detail {

bool on_nvidia(const Device& device) { return device.has_extension("cl_nv_compiler_options"); }

namespace {

constexpr std::int64_t side = 16;   // of gpu_dot.cl

// Of few rows all sums of a work-item stay in registers.
std::int64_t few_rows(DataType type) { return size_of(gemm_compute_type(type)) > 4 ? 4 : 16; }

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

// NVIDIA: two groups on a multiprocessor need 128 registers at most; its compiler likes to take a few more, with the
// longest slab so many that they would be spilled.
int large_registers(const Device& device, std::int64_t lines, std::int64_t slab_k)
{
    return lines == 128 && slab_k < 32 && on_nvidia(device) ? 128 : 0;
}

// What kernels count steps with: the registers that NVIDIA's compiler misses for sums.
const char* count_type(const Device& device, std::int64_t most)
{
    return on_nvidia(device) && most <= std::numeric_limits<std::int32_t>::max() ? "int" : "long";
}

// Whether drivers count cores as compute units, which all but Intel's do.
bool counts_cores(const Device& device) { return gpu_rate(device).cores == device.compute_units; }

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
           (sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : "") + (interleaved ? " -DINTERLEAVED=1" : "");
}

Workload GpuTile::work(const GpuRate& rate, double groups, double depth) const
{
    // Of the instructions of loops that are FMAs (docs/gpu_kernels.md); float64 and other types are slower throughout.
    const double share = lines == 128 ? 0.85 : lines == 64 ? 0.65 : 0.45, sums = static_cast<double>(lines * lines);
    const bool large_engines = rate.products >= 32;
    const double sub_groups = static_cast<double>(items()) / (large_engines ? 32 : 16);
    const double engines = std::min(rate.engines / rate.cores, sub_groups);
    const double clocks = sums * depth / (engines * rate.products * share);
    if (!large_engines)
        return {groups, engines, clocks, sub_groups / engines};
    // As products of an H100 take: their share of the peak, and how much longer a group that is alone on its core takes
    // for each slab, until the next one has come from memory and at the barriers.
    const double reached = lines == 128 ? 0.72 : lines == 64 ? 0.49 : 0.48;
    const double slab_waits = lines == 32 ? 300 : slab_k > 8 ? 700 : 1000;
    return {groups, engines, clocks * share / reached, sub_groups / engines, false,
            slab_waits * depth / static_cast<double>(slab_k), static_cast<double>(resident)};
}

std::size_t GpuTile::local_memory(DataType real) const
{
    return static_cast<std::size_t>(2 * slab_k * (lines + 4)) * size_of(real);
}

Space gpu_tile_space(const GpuTile& usual, const Device& device)
{
    const std::vector<std::int64_t> lines =
        device.max_work_group_size < 256 ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{32, 64, 128};
    return {{"tile", lines, usual.lines},
            {"slab", {8, 16, 32}, usual.slab_k},
            {"interleaved", {0, 1}, usual.interleaved}};
}

GpuTile gpu_tile_at(const Point& point, const Device& device, DataType real)
{
    GpuTile tile{point.at("tile"), point.at("slab"), large_registers(device, point.at("tile"), point.at("slab")),
                 tile_sub_group(device, point.at("tile"))};
    tile.interleaved = point.at("interleaved") != 0;
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
    if (counts_cores(device))
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
    const bool deep = counts_cores(device) || has_eights(device);
    return {128, deep ? 16 : 8, large_registers(device, 128, 16), tile_sub_group(device, 128)};
}

namespace {

// Those worth a comparison. NVIDIA's drivers do not keep to the most registers of a work-item that they are told: a
// large tile leaves room for a second group with the shortest slabs only. A product of 4096^3 takes an H100 3.1 ms with
// those and 4.0 with 16. The longest are for groups that are alone on their cores. Before compute capability 8.0, from
// which on there is a matrix engine that is known, NVIDIA's compiler spills with them.
std::vector<GpuTile> possible_tiles(const Device& device, DataType real)
{
    if (real != DataType::float32 || device.max_work_group_size < 256)
        return {gpu_tile(device, real, 0)};
    const bool nvidia = on_nvidia(device);
    const std::int64_t slab = nvidia ? 8 : 16;
    std::vector<GpuTile> tiles{{128, slab, large_registers(device, 128, slab)}, {64, 16, 0, 0, 4}, {32, 16, 0, 0, 8}};
    if (nvidia && !matrix_engine(device).emulated)
        tiles.push_back({128, 32, 0, 0, 1});
    std::erase_if(tiles, [&](const GpuTile& tile) { return device.local_memory < tile.local_memory(real); });
    return tiles;
}

}  // namespace

TiledCut best_tiled_cut(const Device& device, DataType real, const TiledSums& sums,
                        const std::function<void(GpuTile&)>& adapt)
{
    const auto blocks = [&](std::int64_t lines) {
        return divide_up(sums.rows, lines) * divide_up(sums.columns, lines) * sums.groups;
    };
    // A large tile of few rows or columns would mostly compute what is not written.
    const std::int64_t large = std::min(sums.rows, sums.columns) < 96 ? 0 : blocks(128);
    const GpuRate rate = gpu_rate(device);
    constexpr double worth = 0.93;
    TiledCut best{};
    double least = std::numeric_limits<double>::infinity();
    const std::vector<GpuTile> tiles =
        counts_cores(device) ? possible_tiles(device, real) : std::vector{gpu_tile(device, real, large)};
    for (GpuTile tile : tiles) {
        tile.interleaved = on_nvidia(device);
        if (adapt)
            adapt(tile);
        const Workload work = tile.work(rate, static_cast<double>(blocks(tile.lines)), static_cast<double>(sums.depth));
        const Parts parts = best_parts(rate, work, sums.elements, sums.most_parts, sums.added_anyway);
        if (parts.clocks < least)   // the largest come first: smaller ones read more
            least = worth * parts.clocks, best = {tile, parts.count, parts.clocks};
    }
    return best;
}

Rejection gpu_dot_rejects(const GemmProblem& problem, const Device& device)
{
    if (auto reason = unsuitable(problem, device, side * side))
        return reason;
    constexpr std::int64_t fewest = 4, line = 64;   // k that a work-group takes at a time, and adds up in the end
    const std::int64_t lines = std::min(problem.m, problem.n);
    if (const std::int64_t most = few_rows(problem.dtype); lines > most)
        return fmt::format("more than {} rows and columns", most);
    if (lines > fewest && problem.k < line)
        return fmt::format("more than {} rows and columns with sums of less than {} products", fewest, line);
    return std::nullopt;
}

namespace {

// Rows of a work-group. Intel's GPUs before Xe-HPC and Xe2 have half the registers, and on those its compiler spills
// sums of two columns; places of single elements take some.
std::int64_t dot_rows(const GemmProblem& problem, bool in_quads, bool b_along_k, const Device& device)
{
    const std::int64_t m = problem.m;
    // Intel's GPUs multiply 64 bits in pieces, which take registers.
    if (problem.dtype == DataType::int64 && (has_eights(device) || spilling_sub_group(device) != 0))
        return b_along_k && m > 1 && m <= 4 ? 4 : 1;
    const bool narrow = has_eights(device) || (b_along_k && spilling_sub_group(device) != 0);
    const std::int64_t most = narrow || !in_quads ? 8 : 16;
    for (const std::int64_t rows : {1, 4, 8})
        if (m <= rows)
            return rows;
    return most;
}

}  // namespace

void gpu_dot(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = asked.n < asked.m;
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    const bool along_k = b_along_k(problem);
    const bool aligned = along_k ? in_groups(4, tensors.b, problem.k, problem.b.row, problem.b.column, problem.b.batch)
                                 : in_groups(4, tensors.b, problem.n, problem.b.column, problem.b.row, problem.b.batch);
    const bool a_quads = in_groups(4, tensors.a, problem.k, problem.a.column, problem.m == 1 ? 0 : problem.a.row,
                                   problem.a.batch);
    const std::int64_t rows = dot_rows(problem, aligned && a_quads, along_k, queue.device());
    const std::int64_t columns = !along_k ? 4 * side : rows > 4 ? 2 * side : side;
    // Sums of many rows, addresses of single elements of several rows and products of 64 bits take registers.
    const bool many = rows > 4 || (rows > 1 && !aligned) || problem.dtype == DataType::int64;
    const int sub_group = many ? spilling_sub_group(queue.device()) : 0;
    // Two groups on a core of NVIDIA's; not where so few registers would be spilled.
    const std::size_t element = size_of(problem.dtype);
    const bool limited = rows == 8 && on_nvidia(queue.device()) &&
                         ((aligned && a_quads) || element == 2 || (element == 4 && along_k));
    const std::string options =
        gemm_options(problem.dtype) + (sub_group ? fmt::format(" -DSUB_GROUP={}", sub_group) : "") +
        (limited ? " -cl-nv-maxrregcount=128" : "") +
        fmt::format(" -DB_ALONG_K={:d} -DALIGNED={:d} -DA_QUADS={:d} -DOFFSET={} -DLEFT={} -DROWS={}", along_k, aligned,
                    a_quads, offset_type(problem), rows > 1 ? count_type(queue.device(), problem.k) : "long", rows);
    const Program& program = queue.context().program("kernels/gemm/gpu_dot.cl", options);
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

TiledCut usual_plan(const GemmProblem& p, const Device& device)
{
    const double elements = static_cast<double>(p.batch) * static_cast<double>(p.m * p.n);
    return best_tiled_cut(device, gemm_compute_type(p.dtype),
                          {p.m, p.n, p.batch, p.k, elements, most_splits(p, tiled_split_step)});
}

bool has_room(const GpuTile& tile, int stages, const Device& device)
{
    return device.local_memory >= static_cast<std::size_t>(stages) * tile.local_memory(DataType::float32);
}

// Slabs copied past registers leave those to the sums: without it an H100 has 129 in use for factors that lie across k,
// one too many for a second group. Where both lie along k nothing is copied, which saves it a barrier; those before it
// have no register for a second slab.
int usual_stages(const GemmProblem& p, const GpuTile& tile, const Device& device)
{
    const MatrixEngineChoice engine = matrix_engine(device);
    if (engine.emulated || !has_room(tile, 2, device) || !copies_past_registers(engine, device))
        return 0;
    return !(a_along_k(p) && b_along_k(p)) || has_warpgroups(engine, device) ? 2 : 0;
}

void run_tiled(Queue& queue, const GemmProblem& problem, const GemmTensors& tensors, const TiledCut& plan)
{
    const bool staged = plan.tile.stages > 0 && problem.dtype == DataType::float32 && all_aligned(problem, tensors);
    const GpuCut cut = gpu_cut(problem, divide_up(problem.n, plan.tile.lines), divide_up(problem.m, plan.tile.lines),
                               plan.parts, tiled_split_step);
    const bool partial = cut.splits > 1;
    const std::string options =
        gemm_options(problem.dtype) + plan.tile.options() + layout_options(problem, tensors, queue.device()) +
        fmt::format(" -DCOUNTED={:d} -DLEFT={} -DPARTIAL={:d} -DADD_D={:d} -DACTIVATION={}",
                    has_eights(queue.device()), count_type(queue.device(), problem.k), partial,
                    problem.add_d && !partial, partial ? 0 : static_cast<int>(problem.activation)) +
        (staged ? fmt::format(" -DSTAGES={} -DEMULATED={:d}", plan.tile.stages, matrix_engine(queue.device()).emulated)
                : "");
    launch_cut(queue, queue.context().program("kernels/gemm/gpu_tiled.cl", options), problem, tensors, cut,
               {static_cast<std::size_t>(plan.tile.side()), static_cast<std::size_t>(plan.tile.side())});
}

}  // namespace

double gpu_tiled_clocks(const GemmProblem& problem, const Device& device)
{
    return usual_plan(problem, device).clocks;
}

void gpu_tiled(Queue& queue, const GemmProblem& asked, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    const GemmTensors tensors = turned ? transposed(given) : given;
    TiledCut plan = usual_plan(problem, queue.device());
    plan.tile.stages = usual_stages(problem, plan.tile, queue.device());
    run_tiled(queue, problem, tensors, plan);
}

Space gpu_tiled_space(const GemmProblem& asked, const Device& device)
{
    const GemmProblem problem = better_turned(asked) ? transposed(asked) : asked;
    const TiledCut plan = usual_plan(problem, device);
    Space space = gpu_tile_space(plan.tile, device);
    space.push_back({"splits", {1, 2, 4, 8, 16, 32}, plan.parts});
    const bool copies = copies_past_registers(matrix_engine(device), device);
    space.push_back({"stages", copies ? std::vector<std::int64_t>{0, 2, 3} : std::vector<std::int64_t>{0},
                     usual_stages(problem, plan.tile, device)});
    return space;
}

void gpu_tiled_at(Queue& queue, const GemmProblem& asked, const Point& point, const GemmTensors& given)
{
    const bool turned = better_turned(asked);
    const GemmProblem problem = turned ? transposed(asked) : asked;
    GpuTile tile = gpu_tile_at(point, queue.device(), gemm_compute_type(problem.dtype));
    tile.stages = static_cast<int>(point.at("stages"));
    require<NotSupported>(has_room(tile, tile.stages, queue.device()), "no room for ", tile.stages, " slabs of ",
                          tile.slab_k, " of tiles of ", tile.lines);
    run_tiled(queue, problem, turned ? transposed(given) : given, {tile, point.at("splits")});
}

}  // namespace clprim::detail
