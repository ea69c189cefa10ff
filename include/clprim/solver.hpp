// Solvers: one step of an optimiser over all parameters of a net, in a few fused launches, with PyTorch's arithmetic.
#pragma once

#include <clprim/net.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Solver {
public:
    virtual ~Solver();
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;

    // Moves every trainable parameter that has a gradient. A solver keeps state by the names of parameters:
    // one net each.
    void apply(Net& net);
    // zero_grad, forward, backward, apply.
    void step(Net& net);

    // Gradients are scaled down where their norm over all parameters exceeds this (torch.nn.utils.clip_grad_norm_);
    // 0: never. Nothing waits.
    double max_gradient_norm = 0;
    // What the loss was multiplied by (Net::set_loss_weight) so that small gradients of float16 do not vanish:
    // gradients are divided by it first. Of 16-bit parameters the solver keeps and moves float32 copies.
    double gradient_scale = 1;

    // The state (momenta, averages, step counts, float32 copies) by "<parameter>/<name>", for saving and resuming.
    // to_host waits.
    WeightMap state_to_host() const;
    void load_state(Net& net, const WeightMap& state);

    // Parameters and this state in one file (.safetensors), and back. Wait.
    void save_checkpoint(const Net& net, const std::string& path) const;
    void load_checkpoint(Net& net, const std::string& path);

protected:
    struct State;
    Solver();
    virtual void update(Queue& queue, const std::vector<std::string>& names, const std::vector<Tensor>& parameters,
                        const std::vector<Tensor>& gradients) = 0;
    std::unique_ptr<State> state_;

private:
    void clip(Queue& queue, const std::vector<Tensor>& gradients) const;
};

// torch.optim.SGD:  g += weight_decay p;  v = momentum v + (1 - dampening) g (v = g at first);  p -= lr v.
struct SGDConfig {
    double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
    bool nesterov = false, maximize = false;
};
class SGD : public Solver {
public:
    explicit SGD(const SGDConfig& config = {}) : config(config) {}
    SGDConfig config;                    // may be changed between steps

private:
    void update(Queue& queue, const std::vector<std::string>& names, const std::vector<Tensor>& parameters,
                const std::vector<Tensor>& gradients) override;
};

// torch.optim.Adam, and AdamW with `decoupled` weight decay (p *= 1 - lr weight_decay).
struct AdamConfig {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    bool decoupled = false, amsgrad = false, maximize = false;
};
class AdamSolver : public Solver {
public:
    explicit AdamSolver(const AdamConfig& config = {}) : config(config) {}
    AdamConfig config;

private:
    void update(Queue& queue, const std::vector<std::string>& names, const std::vector<Tensor>& parameters,
                const std::vector<Tensor>& gradients) override;
};
inline AdamConfig adamw_config(double lr = 1e-3, double weight_decay = 1e-2)
{
    return {.lr = lr, .weight_decay = weight_decay, .decoupled = true};
}

}  // namespace clprim
CLPRIM_API_END
