// Presents the double's tensors as CPU tensors over the same bytes (aliases).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <map>
#include <vector>

namespace tessera::test::torch_double {

// The aliases for one operation. Tensors that share a storage share its alias, so that in-place operations, out= and
// views work as usual; release() carries changes of the aliases themselves back to the arguments.
class AliasScope {
 public:
  // bytes: the operation reads or writes the tensors. shape: it makes views only.
  enum class Use { bytes, shape };
  // `name` appears in messages.
  AliasScope(std::string name, Use use) : name_(std::move(name)), use_(use) {}

  // Returns the alias of a tensor; undefined tensors and those of other places are returned as they are. With
  // Use::bytes the tensor must lie within one living allocation of the device: throws c10::Error for host memory, and
  // for freed or unbound memory, under a tensor of the device.
  [[nodiscard]] at::Tensor of(const at::Tensor& tensor);
  // The same for a tensor that the operation writes.
  [[nodiscard]] at::Tensor written(const at::Tensor& tensor);

  // Returns a result of the operation as a tensor of the device: the argument whose alias it is, a view of the argument
  // whose bytes it shows, or a new tensor.
  [[nodiscard]] at::Tensor back(const at::Tensor& result) const;
  // Applies to the arguments the sizes, strides and storages that the operation changed (resize_).
  void release();

 private:
  struct SharedStorage {
    c10::Storage original, alias;
    void* data;  // data of the alias when it was made
  };
  struct SharedTensor {
    at::Tensor original, alias;
  };
  [[nodiscard]] at::Tensor aliased(const at::Tensor& tensor);
  [[nodiscard]] bool accesses_memory(const at::Tensor& tensor) const;
  c10::Storage alias_storage(const at::Tensor& tensor);
  void check_memory(const at::Tensor& tensor) const;
  [[nodiscard]] at::Tensor view_of(const c10::Storage& storage, const at::Tensor& shape) const;

  std::string name_;
  Use use_;
  std::vector<SharedStorage> storages_;
  std::vector<SharedTensor> tensors_;
};

}  // namespace tessera::test::torch_double
