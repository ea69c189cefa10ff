// Random numbers of keys instead of a generator (torch.func._random): the same numbers as PyTorch makes on the CPU.
// clprim/keyed_random.hpp makes them.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <clprim/keyed_random.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using clprim::Distribution;

void check_key(const char* name, const Tensor& key)
{
    TORCH_CHECK(key.dim() >= 1 && key.size(-1) == 2, name, ": key must have shape (*batch, 2), got shape ",
                key.sizes());
    TORCH_CHECK(key.scalar_type() == at::kUInt64, name, ": key must have dtype uint64, got ", key.scalar_type());
}

Tensor key_rows(const Tensor& key) { return key.contiguous().view({-1, 2}); }

Tensor split(const Tensor& key, int64_t count)
{
    check_key("_philox_key_split", key);
    TORCH_CHECK(count > 0, "_philox_key_split: num_splits must be positive, got ", count);
    const c10::OptionalDeviceGuard guard(key.device());
    std::vector<int64_t> sizes = key.sizes().vec();
    sizes.insert(sizes.begin(), count);
    Tensor out = at::empty(sizes, key.options());
    if (key.numel() != 0)
        clprim::derive_keys(current_queue(key), view(key_rows(key)), 0, view(out.view({count, -1, 2})));
    return out;
}

Tensor fold_in(const Tensor& key, int64_t data)
{
    check_key("_philox_key_fold_in", key);
    const c10::OptionalDeviceGuard guard(key.device());
    Tensor out = at::empty(key.sizes(), key.options());
    if (key.numel() != 0)
        clprim::derive_keys(current_queue(key), view(key_rows(key)), static_cast<uint64_t>(data),
                            view(out.view({1, -1, 2})));
    return out;
}

Tensor fold_in_tensor(const Tensor& key, const Tensor& data)
{
    check_key("_philox_key_fold_in", key);
    TORCH_CHECK(data.scalar_type() == at::kUInt64, "_philox_key_fold_in: data must have dtype uint64, got ",
                data.scalar_type());
    TORCH_CHECK(data.numel() == 1, "_philox_key_fold_in: data must be a single value, got ", data.numel(),
                " elements");
    TORCH_CHECK(data.device() == key.device(), "_philox_key_fold_in: key and data must be on the same device, got ",
                key.device(), " and ", data.device());
    const c10::OptionalDeviceGuard guard(key.device());
    Tensor out = at::empty(key.sizes(), key.options());
    if (key.numel() != 0)
        clprim::derive_keys(current_queue(key), view(key_rows(key)), view(data), view(out.view({-1, 2})));
    return out;
}

// How many leading dimensions have keys of their own; each key makes the numbers of all dimensions behind them.
int64_t batch_dims(const char* name, const Tensor& self, const Tensor& key)
{
    if (key.dim() == 1)
        return 0;
    TORCH_CHECK(key.dim() == self.dim() + 1, name, ": batched key must have ndim == output ndim + 1, got key shape ",
                key.sizes(), " with output shape ", self.sizes());
    int64_t result = 0;
    for (int64_t dim = 0; dim < self.dim(); ++dim) {
        TORCH_CHECK(key.size(dim) == 1 || key.size(dim) == self.size(dim), name, ": key batch shape ",
                    key.sizes().slice(0, self.dim()), " is not broadcastable with output shape ", self.sizes());
        if (key.size(dim) != 1)
            result = dim + 1;
    }
    return result;
}

Tensor& fill(const char* name, Tensor& self, const Tensor& key, Distribution distribution, double a, double b)
{
    const at::ScalarType type = self.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16,
                                "\"", name, "\" not implemented for '", c10::toString(type), "'");
    check_key(name, key);
    TORCH_CHECK(self.device() == key.device(), name, ": self and key must be on the same device, got ", self.device(),
                " and ", key.device());
    const int64_t batch = batch_dims(name, self, key);
    if (self.numel() == 0)
        return self;
    const c10::OptionalDeviceGuard guard(self.device());
    std::vector<int64_t> sizes = self.sizes().slice(0, batch).vec();
    sizes.push_back(2);
    Tensor keys = key;
    while (keys.dim() > batch + 1)   // of size 1
        keys = keys.squeeze(batch);
    keys = key_rows(keys.expand(sizes));
    Tensor dense = self.is_contiguous() ? self : at::empty(self.sizes(), self.options());
    clprim::keyed_fill(current_queue(self), view(dense.view({keys.size(0), -1})), view(keys), distribution, a, b);
    if (!dense.is_same(self))
        self.copy_(dense);
    return self;
}

Tensor& philox_uniform_(Tensor& self, const Tensor& key, double low, double high)
{
    return fill("_philox_uniform_", self, key, Distribution::uniform, low, high);
}

Tensor& philox_normal_(Tensor& self, const Tensor& key, double mean, double deviation)
{
    return fill("_philox_normal_", self, key, Distribution::normal, mean, deviation);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_philox_key_split", split);
    m.impl("_philox_key_fold_in", fold_in);
    m.impl("_philox_key_fold_in.Tensor", fold_in_tensor);
    m.impl("_philox_uniform_", philox_uniform_);
    m.impl("_philox_normal_", philox_normal_);
}

}  // namespace
}  // namespace torch_ocl
