#include <distributed/engine.hpp>

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <distributed/direct_engine.hpp>
#include <distributed/shared_engine.hpp>

namespace torch_ocl::distributed {
namespace {

constexpr std::int64_t text_bytes = 512;
constexpr std::int64_t own_hook = -1;   // among those that others register

std::int64_t hash_of(const std::string& text)
{
    std::uint64_t hash = 14695981039346656037ull;   // FNV-1a: the same in every process and on every machine
    for (const unsigned char c : text)
        hash = (hash ^ c) * 1099511628211ull;
    return static_cast<std::int64_t>(hash);
}

}  // namespace

Engine::Engine(Group group, EngineFactory factory, Milliseconds timeout)
    : group_(std::move(group)), factory_(std::move(factory)), timeout_(timeout)
{
}

Inner Engine::inner()
{
    const std::lock_guard one(making_);
    if (auto made = inner_if_made())
        return made;
    Inner made = factory_(group_.store, group_.rank, group_.size, timeout_);
    const std::lock_guard lock(mutex_);
    return inner_ = std::move(made);
}

Inner Engine::inner_if_made() const
{
    const std::lock_guard lock(mutex_);
    return inner_;
}

void Engine::break_off(const std::string& reason, bool quietly)
{
    std::map<std::int64_t, std::function<void()>> hooks;
    {
        const std::lock_guard lock(mutex_);
        if (!broken_.empty())
            return;
        broken_ = reason;
        if (!quietly)
            hooks = hooks_;
    }
    for (const auto& [id, hook] : hooks)
        hook();
}

void Engine::call_when_broken(std::int64_t id, std::function<void()> hook)
{
    const std::lock_guard lock(mutex_);
    hooks_[id] = std::move(hook);
}

void Engine::forget_call(std::int64_t id)
{
    const std::lock_guard lock(mutex_);
    hooks_.erase(id);
}

bool Engine::usable() const
{
    const std::lock_guard lock(mutex_);
    return broken_.empty();
}

void Engine::check_usable(const std::string& what) const
{
    const std::lock_guard lock(mutex_);
    TORCH_CHECK_WITH(DistBackendError, broken_.empty(), what, ": the group can no longer be used: ", broken_);
}

void Engine::minimum(Numbers& numbers, Milliseconds timeout)
{
    if (direct_) {
        numbers = direct_->minimum(numbers, timeout);
        return;
    }
    const at::Tensor tensor =
        at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::dtype(at::kLong));
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MIN;
    options.timeout = timeout;
    std::vector<at::Tensor> list{tensor};
    inner()->allreduce(list, options)->wait();
}

std::vector<std::string> Engine::tell_everybody(const std::string& text, Milliseconds timeout)
{
    at::Tensor mine = at::zeros({text_bytes}, at::dtype(at::kByte));
    at::Tensor all = at::empty({text_bytes * group_.size}, at::dtype(at::kByte));
    std::memcpy(mine.mutable_data_ptr(), text.data(), std::min<std::size_t>(text.size(), text_bytes - 1));
    c10d::AllgatherOptions options;
    options.timeout = timeout;
    inner()->_allgather_base(all, mine, options)->wait();
    std::vector<std::string> texts;
    for (int rank = 0; rank < group_.size; ++rank)
        texts.emplace_back(static_cast<const char*>(all.const_data_ptr()) + rank * text_bytes);
    return texts;
}

void Engine::choose_engine(Milliseconds timeout)
{
    if (std::exchange(chosen_, true))
        return;
    const Inner below = inner();
    if (below->getBackendName() != "gloo")   // the others know about machines
        return;
    Inner better = with_shared_memory(below, timeout);
    if (better == below) {
        auto direct = c10::make_intrusive<DirectEngine>(below, timeout);
        direct_ = direct.get();
        better = std::move(direct);
    }
    call_when_broken(own_hook, [better] { better->shutdown(); });
    {
        const std::lock_guard lock(mutex_);
        inner_ = std::move(better);
    }
    constexpr std::int64_t few = std::int64_t{1} << 20;
    prompt_bytes_ = !direct_ || direct_->takes(few) ? few : 0;
}

namespace {

// The minimum of x and that of its complement tell the smallest and the largest: all are equal if these are.
std::array<std::int64_t, 5> numbers_of(const Intent& intent)
{
    const std::int64_t exact = hash_of(intent.exact);
    const std::int64_t loose = intent.loose.empty() ? exact : hash_of(intent.loose);
    return {exact, ~exact, loose, ~loose, intent.refused ? 0 : 1};
}

}  // namespace

bool Engine::agree(const Intent& intent, Milliseconds timeout)
{
    if (group_.size == 1)
        return true;
    choose_engine(timeout);
    Numbers numbers = numbers_of(intent);
    minimum(numbers, timeout);
    return judge(numbers, intent, timeout);
}

bool Engine::agree_with_next(const Intent& intent, std::int64_t bytes, Milliseconds timeout)
{
    if (group_.size == 1)
        return false;
    choose_engine(timeout);
    if (!direct_ || !direct_->takes(bytes))
        return false;
    direct_->carry(numbers_of(intent), [this, intent, timeout](const Numbers& smallest) {
        if (!judge(smallest, intent, timeout))
            throw LooseAgreement();
    });
    return true;
}

bool Engine::judge(const Numbers& smallest, const Intent& intent, Milliseconds timeout)
{
    const bool same = smallest[0] == ~smallest[1], similar = smallest[2] == ~smallest[3], willing = smallest[4] == 1;
    if (willing && (same || similar))
        return same;
    std::map<std::string, std::string> who;   // text → ranks
    const auto texts = tell_everybody((intent.refused ? "!" : " ") + intent.exact, timeout);
    for (int rank = 0; rank < group_.size; ++rank) {
        std::string& ranks = who[texts[rank]];
        if (ranks.size() < 60)
            ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
        else if (ranks.back() != '.')
            ranks += ", ...";
    }
    std::string message;
    for (const auto& [text, ranks] : who)
        message += (message.empty() ? "" : "; ") + ("rank " + ranks) +
                   (text.front() == '!' ? " refuses: " : " calls ") + text.substr(1);
    throw Disagreement((willing ? "the ranks disagree: " : "not every rank can take part: ") + message);
}

void Engine::agree_on_success(const std::string& problem, Milliseconds timeout)
{
    Numbers fine{problem.empty() ? 1 : 0};
    minimum(fine, timeout);
    if (fine[0] == 1)
        return;
    const auto texts = tell_everybody(problem, timeout);
    for (int rank = 0; rank < group_.size; ++rank)
        if (!texts[rank].empty())
            throw Disagreement(c10::str("on rank ", rank, " ", texts[rank]));
}

}  // namespace torch_ocl::distributed
