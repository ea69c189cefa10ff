// An engine for some collectives on top of another one, which does the rest.
#pragma once

#include <utility>
#include <vector>

#include <distributed/engine.hpp>

namespace torch_ocl::distributed {

class LayeredEngine : public c10d::Backend {
public:
    using Tensors = std::vector<at::Tensor>;
    using Pending = c10::intrusive_ptr<c10d::Work>;

    const std::string getBackendName() const override { return below_->getBackendName(); }

    Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override
    {
        return below_->reduce(tensors, options);
    }
    Pending gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override
    {
        return below_->gather(outputs, inputs, options);
    }
    Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override
    {
        return below_->scatter(outputs, inputs, options);
    }
    Pending send(Tensors& tensors, int destination, int tag) override
    {
        return below_->send(tensors, destination, tag);
    }
    Pending recv(Tensors& tensors, int source, int tag) override { return below_->recv(tensors, source, tag); }
    Pending recvAnysource(Tensors& tensors, int tag) override { return below_->recvAnysource(tensors, tag); }
    void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override
    {
        below_->monitoredBarrier(options, wait_for_all);
    }
    void abort() override
    {
        shutdown();
        below_->abort();
    }

protected:
    explicit LayeredEngine(Inner below)
        : c10d::Backend(below->getRank(), below->getSize()), below_(std::move(below))
    {
    }

    Inner below_;
};

}  // namespace torch_ocl::distributed
