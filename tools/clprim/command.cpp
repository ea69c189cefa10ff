#include "command.hpp"

#include <algorithm>

#include "processes.hpp"

namespace clprim::command {

double seconds_since(std::chrono::steady_clock::time_point begin)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Progress::Progress(std::string title, std::size_t total)
    : title_(std::move(title)), total_(std::max<std::size_t>(total, 1)), visible_(is_terminal(stderr))
{
}

Progress::~Progress()
{
    if (visible_ && done_)
        std::fputc('\n', stderr);
}

void Progress::step(const std::string& note)
{
    ++done_;
    if (!visible_)
        return;
    constexpr std::size_t width = 30;
    const std::size_t filled = std::min(width, width * done_ / total_);
    std::fprintf(stderr, "\r%s [%s%s] %zu/%zu %s\033[K", title_.c_str(), std::string(filled, '#').c_str(),
                 std::string(width - filled, '.').c_str(), done_, total_, note.c_str());
    std::fflush(stderr);
}

}  // namespace clprim::command
