#include "device/weight.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <utility>

#include "base/error.h"
#include "device/tensor_device.h"

namespace tessera::device {
namespace {

at::Tensor unbound_tensor(const std::vector<std::int64_t>& shape, at::ScalarType type, at::Device device) {
  return at::for_blob(nullptr, shape)
      .options(at::TensorOptions().dtype(type).device(device))
      .target_device(device)
      .make_tensor();
}

// Keeps the storage and sets only its pointer: tensors that a graph saved share the storage and see the new pointer.
void bind(const at::Tensor& tensor, void* data) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, tensor.device()));
}

}  // namespace

Weight::Weight(std::vector<std::int64_t> shape, at::ScalarType compute, at::ScalarType master, Place place)
    : value_(unbound_tensor(shape, compute, tensor_device(place))),
      gradient_(unbound_tensor(shape, master, tensor_device(place))),
      anchor_(at::empty({0}, at::TensorOptions().dtype(compute).device(tensor_device(place)))) {
  base::expect(at::isFloatingType(compute) && at::isFloatingType(master), "a Weight needs floating types");
  anchor_.set_requires_grad(true);
}

std::size_t Weight::value_bytes() const { return value_.nbytes(); }

std::size_t Weight::gradient_bytes() const { return gradient_.nbytes(); }

void Weight::bind_value(void* data) { bind(value_, data); }

void Weight::bind_gradient(void* data) { bind(gradient_, data); }

}  // namespace tessera::device
