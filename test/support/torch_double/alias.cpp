#include "support/torch_double/alias.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "support/torch_double/backing.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

std::size_t extent_bytes(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

// From its first element to its last.
Bytes bytes_of(const at::Tensor& tensor) {
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  return {static_cast<const std::byte*>(tensor.storage().data()) + offset, extent_bytes(tensor)};
}

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

at::Tensor make_tensor(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& shape) {
  auto result =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), shape.dtype());
  auto* tensor = result.unsafeGetTensorImpl();
  tensor->set_storage_offset(shape.storage_offset());
  tensor->set_sizes_and_strides(shape.sizes(), shape.strides());
  return result;
}

}  // namespace

void AliasScope::check_memory(const at::Tensor& tensor) const {
  if (tensor.numel() == 0) return;
  const auto* data = static_cast<const std::byte*>(tensor.storage().data());
  TORCH_CHECK(data != nullptr, name_, ": a tensor of the device has no memory bound to it");
  TORCH_CHECK(is_device_memory(data), name_, ": the memory of a tensor of the device is the host's");
  const auto* first = data + static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  const auto memory = allocation_of(first);
  TORCH_CHECK(memory.begin != nullptr, name_, ": the memory of a tensor of the device has been freed");
  TORCH_CHECK(first + extent_bytes(tensor) <= memory.begin + memory.count, name_, ": a tensor of sizes ",
              tensor.sizes(), " and strides ", tensor.strides(), " reaches beyond its allocation of ", memory.count,
              " bytes");
}

c10::Storage AliasScope::alias_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  for (const auto& shared : storages_)
    if (shared.original.is_alias_of(storage)) return shared.alias;
  const auto* original = storage.unsafeGetStorageImpl();
  void* data = is_device_memory(storage.data()) ? alias_of(storage.data()) : nullptr;
  c10::Storage alias(c10::Storage::use_byte_size_t(), storage.nbytes(), at::DataPtr(data, c10::Device(c10::kCPU)),
                     c10::GetCPUAllocator(), original->resizable());
  storages_.push_back({storage, alias, data});
  return alias;
}

at::Tensor AliasScope::of(const at::Tensor& tensor) {
  if (accesses_memory(tensor)) before_access(name_, {bytes_of(tensor)}, {});
  return aliased(tensor);
}

at::Tensor AliasScope::written(const at::Tensor& tensor) {
  if (accesses_memory(tensor)) before_access(name_, {}, {bytes_of(tensor)});
  return aliased(tensor);
}

bool AliasScope::accesses_memory(const at::Tensor& tensor) const {
  if (use_ != Use::bytes || !tensor.defined() || !tensor.is_privateuseone() || tensor.numel() == 0) return false;
  check_memory(tensor);
  return true;
}

at::Tensor AliasScope::aliased(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  for (const auto& shared : tensors_)
    if (shared.original.is_same(tensor)) return shared.alias;
  auto alias = make_tensor(alias_storage(tensor), c10::DispatchKey::CPU, tensor);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  tensors_.push_back({tensor, alias});
  return alias;
}

at::Tensor AliasScope::view_of(const c10::Storage& storage, const at::Tensor& shape) const {
  auto view = make_tensor(storage, c10::DispatchKey::PrivateUse1, shape);
  if (shape.is_conj()) view._set_conj(true);
  if (shape.is_neg()) view._set_neg(true);
  return view;
}

at::Tensor AliasScope::back(const at::Tensor& result) const {
  if (!result.defined() || result.is_privateuseone()) return result;
  for (const auto& shared : tensors_)
    if (shared.alias.is_same(result)) return shared.original;
  for (const auto& shared : storages_)
    if (shared.alias.is_alias_of(result.storage())) return view_of(shared.original, result);
  const at::Tensor made(
      at::detail::empty_strided_generic(result.sizes(), result.strides(), c10::GetAllocator(c10::kPrivateUse1),
                                        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result.scalar_type()));
  const auto bytes = extent_bytes(result);
  if (result.numel() > 0) {
    before_access(name_, {}, {bytes_of(made)});
    std::memcpy(alias_of(made.mutable_data_ptr()), result.const_data_ptr(), bytes);
  }
  if (result.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

void AliasScope::release() {
  for (auto& shared : storages_) {
    if (shared.alias.data() == shared.data && shared.alias.nbytes() == shared.original.nbytes()) continue;
    const auto bytes = shared.alias.nbytes();
    auto memory = c10::GetAllocator(c10::kPrivateUse1)->allocate(bytes);
    if (bytes > 0) std::memcpy(alias_of(memory.get()), shared.alias.data(), bytes);
    auto* original = shared.original.unsafeGetStorageImpl();
    original->set_data_ptr_noswap(std::move(memory));
    original->set_nbytes(bytes);
  }
  for (auto& [original, alias] : tensors_) {
    if (same_shape(original, alias)) continue;
    original.unsafeGetTensorImpl()->set_storage_offset(alias.storage_offset());
    original.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides());
  }
}

}  // namespace tessera::test::torch_double
