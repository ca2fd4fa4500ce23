// Tensors made, and copied between places.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "support/torch_double/alias.h"
#include "support/torch_double/synchronisation.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

constexpr c10::DispatchKeySet device_keys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                 [[maybe_unused]] std::optional<at::Device> place, std::optional<bool> pin,
                 std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided && !pin.value_or(false),
              "the torch double has strided tensors that are not pinned");
  return at::Tensor(at::detail::empty_generic(size, c10::GetAllocator(c10::kPrivateUse1), device_keys,
                                              c10::dtype_or_default(type), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> layout, [[maybe_unused]] std::optional<at::Device> place,
                         std::optional<bool> pin) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided && !pin.value_or(false),
              "the torch double has strided tensors that are not pinned");
  return at::Tensor(at::detail::empty_strided_generic(size, stride, c10::GetAllocator(c10::kPrivateUse1), device_keys,
                                                      c10::dtype_or_default(type)));
}

void count_copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return;
  count_launch("aten::copy_");
  if (!to.is_privateuseone()) {
    count_synchronisation("copy to host");
  } else if (!from.is_privateuseone() && !non_blocking) {
    count_synchronisation("copy to device");
  }
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  count_copy(from, to, non_blocking);
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::copy_", AliasScope::Use::bytes);
  scope.written(to).copy_(scope.of(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, /*non_blocking=*/false);
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  TORCH_CHECK(storage.device().is_privateuseone(), "set_: the storage lies on ", storage.device());
  auto* self = tensor.unsafeGetTensorImpl();
  self->set_storage_keep_dtype(std::move(storage));
  self->set_storage_offset(offset);
  if (stride.empty() && !size.empty()) {
    self->set_sizes_contiguous(size);
  } else {
    self->set_sizes_and_strides(size, stride);
  }
  return tensor;
}

at::Tensor& set_whole_storage(at::Tensor& tensor, at::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / tensor.itemsize());
  return set_storage(tensor, std::move(storage), 0, {elements}, {1});
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& tensor) { return set_tensor(tensor, at::empty({0}, tensor.options())); }

void record_stream([[maybe_unused]] at::Tensor& tensor, [[maybe_unused]] at::Stream stream) {}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("set_.source_Storage", &set_whole_storage);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_.source_Tensor", &set_tensor);
  library.impl("set_", &set_empty);
  library.impl("record_stream", &record_stream);
}

}  // namespace tessera::test::torch_double
