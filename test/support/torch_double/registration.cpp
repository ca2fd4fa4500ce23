// What LibTorch asks a device for: memory, streams and events (there is one stream, on which all is done at once), and
// the entry points above.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>

#include "support/torch_double/device_memory.h"
#include "support/torch_double/fallback.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

// The two kinds of memory behind one interface.
class DoublesAllocator : public c10::Allocator {
 public:
  DoublesAllocator(c10::Device place, void* (*take)(std::size_t), c10::DeleterFnPtr give_back,
                   void* (*alias)(const void*))
      : place_(place), take_(take), give_back_(give_back), alias_(alias) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, place_};
    auto* memory = take_(bytes);
    return {memory, memory, give_back_, place_};
  }
  c10::DeleterFnPtr raw_deleter() const override { return give_back_; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(alias_(to), alias_(from), bytes);
  }

 private:
  c10::Device place_;
  void* (*take_)(std::size_t);
  c10::DeleterFnPtr give_back_;
  void* (*alias_)(const void*);
};

DoublesAllocator& device_allocator() {
  static auto* allocator = new DoublesAllocator(device(), &device_allocate, &device_free, &alias_of);
  return *allocator;
}

DoublesAllocator& pinned_allocator() {
  static auto* allocator = new DoublesAllocator(
      c10::Device(c10::kCPU), [](std::size_t bytes) { return pinned_arena().allocate(bytes); },
      [](void* memory) { pinned_arena().free(memory); },
      [](const void* memory) { return pinned_arena().alias_of(memory); });
  return *allocator;
}

class Guard : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice([[maybe_unused]] c10::Device next) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device next) const override {
    TORCH_CHECK(next.index() <= 0, "the torch double has one device, not ", next);
  }
  void uncheckedSetDevice([[maybe_unused]] c10::Device next) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream([[maybe_unused]] c10::Device place) const override { return stream(); }
  c10::Stream getDefaultStream([[maybe_unused]] c10::Device place) const override { return stream(); }
  c10::Stream exchangeStream([[maybe_unused]] c10::Stream next) const override { return stream(); }
  bool queryStream([[maybe_unused]] const c10::Stream& which) const override { return true; }
  void synchronizeStream([[maybe_unused]] const c10::Stream& which) const override {
    count_synchronisation("stream synchronisation");
  }

  void record(void** event, [[maybe_unused]] const c10::Stream& where, [[maybe_unused]] c10::DeviceIndex index,
              [[maybe_unused]] c10::EventFlag flag) const override {
    static int passed = 0;
    *event = &passed;
  }
  void block([[maybe_unused]] void* event, [[maybe_unused]] const c10::Stream& which) const override {}
  bool queryEvent([[maybe_unused]] void* event) const override { return true; }
  void synchronizeEvent([[maybe_unused]] void* event) const override { count_synchronisation("event synchronisation"); }
  void synchronizeDevice([[maybe_unused]] c10::DeviceIndex index) const override {
    count_synchronisation("device synchronisation");
  }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device()); }
};

class Hooks : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext([[maybe_unused]] c10::DeviceIndex index) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice([[maybe_unused]] c10::DeviceIndex index) const override {}
  c10::DeviceIndex exchangeDevice([[maybe_unused]] c10::DeviceIndex index) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice([[maybe_unused]] c10::DeviceIndex index) const override { return 0; }
  // CPU kernels draw the numbers.
  const at::Generator& getDefaultGenerator([[maybe_unused]] c10::DeviceIndex index) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator([[maybe_unused]] c10::DeviceIndex index) const override {
    return at::detail::createCPUGenerator();
  }
  at::Device getDeviceFromPtr(void* data) const override {
    TORCH_CHECK(is_device_memory(data), "the pointer ", data, " is not of the device");
    return device();
  }
  bool isPinnedPtr(const void* data) const override { return pinned_arena().contains(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    auto memory = device_allocator().allocate(bytes);
    const auto kept = std::min(bytes, storage.nbytes());
    if (kept > 0) device_allocator().copy_data(memory.get(), storage.data(), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

const bool registered = [] {
  c10::register_privateuse1_backend("torch_double");
  c10::SetAllocator(c10::kPrivateUse1, &device_allocator());
  c10::impl::registerDeviceGuard(c10::kPrivateUse1, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

at::Device device() { return {c10::kPrivateUse1, 0}; }

at::Tensor to_device(const at::Tensor& tensor) { return tensor.to(device()); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// Operations that LibTorch composes of smaller ones for a device that it does not know, while the CPU and CUDA have one
// kernel (such as silu_backward), or CUDA alone (for lists of tensors): they are one operation here too.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op.has_value() || name.getNamespace() != "aten") continue;
    const bool composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
                          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
    const bool whole = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || is_of_lists(name.name);
    if (composed && whole)
      library.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

}  // namespace tessera::test::torch_double
