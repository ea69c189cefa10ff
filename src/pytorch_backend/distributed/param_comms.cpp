#include <distributed/param_comms.hpp>

namespace torch_ocl::distributed {

CommsGroup::CommsGroup(std::string uid, std::string description, int rank, int size,
                       const std::vector<std::uint64_t>& ranks)
    : name(std::move(uid), std::move(description)), rank(rank), size(size)
{
    if (ranks.empty())   // the group of all
        return;
    first = static_cast<int>(ranks[0]);
    if (ranks.size() > 1)
        stride = static_cast<int>(ranks[1]) - first;
    for (std::size_t i = 1; i < ranks.size(); ++i)
        if (static_cast<int>(ranks[i] - ranks[i - 1]) != stride)
            stride = -1;
}

const char* comms_name(c10d::OpType type)
{
    using c10d::OpType;
    switch (type) {
    case OpType::ALLREDUCE: return "allreduce";
    case OpType::ALLREDUCE_COALESCED: return "allreduce_coalesced";
    case OpType::BROADCAST: return "broadcast";
    case OpType::REDUCE: return "reduce";
    case OpType::ALLGATHER: return "all_gather";
    case OpType::_ALLGATHER_BASE: return "_allgather_base";
    case OpType::ALLGATHER_COALESCED: return "allgather_into_tensor_coalesced";
    case OpType::GATHER: return "gather";
    case OpType::SCATTER: return "scatter";
    case OpType::REDUCE_SCATTER: return "reduce_scatter";
    case OpType::_REDUCE_SCATTER_BASE: return "_reduce_scatter_base";
    case OpType::ALLTOALL: return "all_to_all";
    case OpType::ALLTOALL_BASE: return "all_to_allv";
    case OpType::SEND: return "send";
    case OpType::RECV:
    case OpType::RECVANYSOURCE: return "recv";
    case OpType::BARRIER: return "barrier";
    default: return "collective";
    }
}

}  // namespace torch_ocl::distributed
