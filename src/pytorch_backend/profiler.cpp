// torch.profiler: kernels, copies and fills with their times on the device, through libkineto's plugin interface; and
// the events of the older torch.autograd.profiler.
#include <profiler.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <clprim/context.hpp>
#include <clprim/profile.hpp>

#include <runtime/stream.hpp>

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>) && __has_include(<libkineto.h>)
#define TORCH_OCL_KINETO 1
#define USE_KINETO
#define FMT_HEADER_ONLY   // of Kineto's headers; libtorch exports no fmt
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <libkineto.h>
#include <output_base.h>
#endif

namespace torch_ocl {
namespace {

namespace py = pybind11;

using Kind = clprim::ProfiledCommand::Kind;

// What a trace calls a command.
std::string title(const clprim::ProfiledCommand& command)
{
    switch (command.kind) {
    case Kind::write: return "Memcpy HtoD (Host -> Device)";
    case Kind::read: return "Memcpy DtoH (Device -> Host)";
    case Kind::copy: return "Memcpy DtoD (Device -> Device)";
    case Kind::fill: return "Memset (Device)";
    default: return command.name;
    }
}

const char* call(Kind kind)
{
    switch (kind) {
    case Kind::write: return "clEnqueueWriteBuffer";
    case Kind::read: return "clEnqueueReadBuffer";
    case Kind::copy: return "clEnqueueCopyBuffer";
    case Kind::fill: return "clEnqueueFillBuffer";
    default: return "clEnqueueNDRangeKernel";
    }
}

#ifdef TORCH_OCL_KINETO

using libkineto::ActivityType;

ActivityType activity_type(Kind kind)
{
    switch (kind) {
    case Kind::kernel: return ActivityType::CONCURRENT_KERNEL;
    case Kind::fill: return ActivityType::GPU_MEMSET;
    default: return ActivityType::GPU_MEMCPY;
    }
}

std::string sizes(const std::array<std::size_t, 3>& values)
{
    return "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) + "]";
}

class Session final : public libkineto::IActivityProfilerSession {
public:
    explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

    void start() override
    {
        status_ = libkineto::TraceStatus::RECORDING;
        toggleCollectionDynamic(true);
    }

    void stop() override
    {
        toggleCollectionDynamic(false);
        status_ = libkineto::TraceStatus::PROCESSING;
    }

    void toggleCollectionDynamic(bool enable) TORCH_OCL_OVERRIDE_SINCE_2_14
    {
        if (enable && !profile_) {
            profile_ = std::make_unique<clprim::Profile>();
        } else if (!enable && profile_) {
            for (auto& command : profile_->stop())
                commands_.push_back(std::move(command));
            profile_.reset();
        }
    }

    std::vector<std::string> errors() override { return {}; }

    void processTrace(libkineto::ActivityLogger& logger) override
    {
        processTrace(logger, [](std::int32_t) { return nullptr; }, 0, 0);
    }

    void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked,
                      std::int64_t begin, std::int64_t end) override
    {
        trace_.span = libkineto::TraceSpan(begin, end, "ocl");
        trace_.gpuOpCount = static_cast<int>(commands_.size());
        std::set<std::pair<int, int>> streams;
        std::map<std::tuple<int, int, std::uint64_t>, std::pair<std::int64_t, std::int64_t>> ranges;
        for (const clprim::ProfiledCommand& command : commands_) {
            const libkineto::ITraceActivity* origin =
                command.correlation == 0 ? nullptr : linked(static_cast<std::int32_t>(command.correlation));
            add(logger, command, origin);
            streams.emplace(command.device, command.queue);
            if (command.annotation != 0) {
                auto& range = ranges.try_emplace({command.device, command.queue, command.annotation}, command.started,
                                                 command.ended).first->second;
                range = {std::min(range.first, command.started), std::max(range.second, command.ended)};
            }
        }
        for (const auto& [place, times] : ranges)
            if (const auto* origin = linked(static_cast<std::int32_t>(std::get<2>(place))))
                add_range(logger, *origin, place, times);
        describe(logger, streams, begin);
        commands_.clear();
    }

    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }   // processTrace tells of all
    std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override
    {
        return std::make_unique<libkineto::CpuTraceBuffer>(std::move(trace_));
    }

    void pushCorrelationId(std::uint64_t id) override { clprim::push_correlation(id); }
    void popCorrelationId() override { clprim::pop_correlation(); }
    void pushUserCorrelationId(std::uint64_t id) override { clprim::push_annotation(id); }
    void popUserCorrelationId() override { clprim::pop_annotation(); }

private:
    // The command on its stream's track, and the call that enqueued it on its thread's, with an arrow between.
    void add(libkineto::ActivityLogger& logger, const clprim::ProfiledCommand& command,
             const libkineto::ITraceActivity* origin)
    {
        static std::atomic<std::int32_t> last_id{0};
        const std::int32_t id = ++last_id & 0x7fffffff;
        if (types_.count(ActivityType::PRIVATEUSE1_RUNTIME) != 0) {
            auto& activity = make(ActivityType::PRIVATEUSE1_RUNTIME, call(command.kind), id, origin);
            activity.startTime = command.enqueue_started;
            activity.endTime = command.enqueued;
            activity.device = libkineto::processId();
            activity.resource = command.thread;
            activity.threadId = static_cast<std::int32_t>(command.thread);
            activity.flow.start = 1;
            logger.handleGenericActivity(activity);
        }
        const ActivityType type = activity_type(command.kind);
        if (types_.count(type) == 0)
            return;
        auto& activity = make(type, title(command), id, origin);
        activity.startTime = command.started;
        activity.endTime = command.ended;
        activity.device = command.device;
        activity.resource = command.queue;
        activity.flow.start = 0;
        activity.addMetadata("device", std::to_string(command.device));
        activity.addMetadata("stream", std::to_string(command.queue));
        if (command.kind == Kind::kernel) {
            std::array<std::size_t, 3> groups = command.global;
            for (std::size_t i = 0; i < 3; ++i)
                groups[i] /= std::max<std::size_t>(command.local[i], 1);
            if (command.local[0] != 0) {
                activity.addMetadata("grid", sizes(groups));
                activity.addMetadata("block", sizes(command.local));
            }
            activity.addMetadata("global work size", sizes(command.global));
        } else {
            activity.addMetadata("bytes", std::to_string(command.bytes));
            const double seconds = static_cast<double>(command.ended - command.started) * 1e-9;
            if (seconds > 0)
                activity.addMetadata("memory bandwidth (GB/s)",
                                     std::to_string(static_cast<double>(command.bytes) / seconds * 1e-9));
        }
        logger.handleGenericActivity(activity);
    }

    // A range that the program named, on the track of a stream that worked for it.
    void add_range(libkineto::ActivityLogger& logger, const libkineto::ITraceActivity& origin,
                   const std::tuple<int, int, std::uint64_t>& place,
                   const std::pair<std::int64_t, std::int64_t>& times)
    {
        if (types_.count(ActivityType::GPU_USER_ANNOTATION) == 0)
            return;
        trace_.emplace_activity(trace_.span, ActivityType::GPU_USER_ANNOTATION, origin.name());
        libkineto::GenericTraceActivity& activity = *trace_.activities.back();
        activity.id = static_cast<std::int32_t>(origin.correlationId());
        activity.device = std::get<0>(place);
        activity.resource = std::get<1>(place);
        activity.startTime = times.first;
        activity.endTime = times.second;
        logger.handleGenericActivity(activity);
    }

    libkineto::GenericTraceActivity& make(ActivityType type, const std::string& name, std::int32_t id,
                                          const libkineto::ITraceActivity* origin)
    {
        trace_.emplace_activity(trace_.span, type, name);
        libkineto::GenericTraceActivity& activity = *trace_.activities.back();
        activity.id = id;
        activity.linked = origin;
        activity.flow.id = static_cast<std::uint32_t>(id);
        activity.flow.type = libkineto::kLinkAsyncCpuGpu;
        activity.addMetadata("correlation", std::to_string(id));
        if (origin != nullptr)
            activity.addMetadata("External id", std::to_string(origin->correlationId()));
        return activity;
    }

    static void describe(libkineto::ActivityLogger& logger, const std::set<std::pair<int, int>>& streams,
                         std::int64_t time)
    {
        int last = -1;
        for (const auto& [device, queue] : streams) {
            if (device != last)
                logger.handleDeviceInfo({device, libkineto::kExceedMaxPid + device, clprim::device_at(device).name,
                                         "ocl:" + std::to_string(device)},
                                        time);
            last = device;
            logger.handleResourceInfo({queue, queue, device, "stream " + std::to_string(queue)}, time);
        }
    }

    std::set<ActivityType> types_;
    std::unique_ptr<clprim::Profile> profile_;
    std::vector<clprim::ProfiledCommand> commands_;
    libkineto::CpuTraceBuffer trace_;
};

class ActivityProfiler final : public libkineto::IActivityProfiler {
public:
    const std::string& name() const override { return name_; }
    const std::set<ActivityType>& availableActivities() const override { return available_; }

    std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                   const libkineto::Config&) override
    {
        if (types.count(ActivityType::CONCURRENT_KERNEL) == 0)   // of the CPU alone
            return nullptr;
        return std::make_unique<Session>(types);
    }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(std::int64_t, std::int64_t,
                                                                   const std::set<ActivityType>& types,
                                                                   const libkineto::Config& config) override
    {
        return configure(types, config);
    }

private:
    std::string name_ = "ocl";
    std::set<ActivityType> available_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                      ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION,
                                      ActivityType::PRIVATEUSE1_RUNTIME};
};

using torch::profiler::impl::RegisterPrivateUse1Profiler;
const RegisterPrivateUse1Profiler<ActivityProfiler> registered_with_kineto;

#endif   // TORCH_OCL_KINETO

// torch.autograd.profiler.profile(use_device="ocl") without Kineto: a marker before and after each operator.
struct Stubs final : torch::profiler::impl::ProfilerStubs {
    void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
                std::int64_t* cpu_ns) const override
    {
        clprim::Queue& queue = current_queue(current_device());
        if (device != nullptr)
            *device = current_device();
        *event = std::make_shared<clprim::Event>(queue.record());
        if (cpu_ns != nullptr)
            *cpu_ns = c10::getTime();
    }
    float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* first,
                  const torch::profiler::impl::ProfilerVoidEventStub* last) const override
    {
        const auto& begin = *static_cast<const clprim::Event*>(first->get());
        const auto& end = *static_cast<const clprim::Event*>(last->get());
        return static_cast<float>(begin.elapsed_ms(end) * 1000);
    }
    void mark(const char*) const override {}
    void rangePush(const char*) const override {}
    void rangePop() const override {}
    bool enabled() const override { return device_count() > 0; }
    void onEachDevice(std::function<void(int)> operation) const override
    {
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            if (clprim::Context::created(i))
                operation(i);
    }
    void synchronize() const override
    {
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            if (clprim::Context::created(i))
                context(i).finish();
    }
};

const bool registered_stubs = [] {
    torch::profiler::impl::registerPrivateUse1Methods(new Stubs());   // PyTorch keeps it for good
    return true;
}();

py::list as_python(const std::vector<clprim::ProfiledCommand>& commands)
{
    static constexpr const char* kinds[] = {"kernel", "write", "read", "copy", "fill"};
    py::list result;
    for (const clprim::ProfiledCommand& command : commands) {
        py::dict entry;
        entry["kind"] = kinds[static_cast<int>(command.kind)];
        entry["name"] = title(command);
        entry["device"] = command.device;
        entry["stream"] = command.queue;
        entry["bytes"] = command.bytes;
        entry["global"] = command.global;
        entry["local"] = command.local;
        entry["enqueued"] = command.enqueued;
        entry["started"] = command.started;
        entry["ended"] = command.ended;
        result.append(entry);
    }
    return result;
}

}  // namespace

void bind_profiler(pybind11::module_& m)
{
    py::class_<clprim::Profile>(m, "Profile")
        .def(py::init<>(), py::call_guard<py::gil_scoped_release>())
        .def("stop", [](clprim::Profile& profile) {
            std::vector<clprim::ProfiledCommand> commands;
            {
                const py::gil_scoped_release release;
                commands = profile.stop();
            }
            return as_python(commands);
        });
#ifdef TORCH_OCL_KINETO
    m.attr("has_kineto") = true;
#else
    m.attr("has_kineto") = false;
#endif
}

}  // namespace torch_ocl
