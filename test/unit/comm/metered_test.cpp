// If this failed, operations would be missing from a run's record of traffic, or metering would alter them.
#include "comm/metered.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "support/catch.h"

namespace tessera::comm {
namespace {

TEST_CASE("every call of a group of one rank is counted by its kind, with no bytes, and does what it did before") {
  std::array<float, 6> data{1, 2, 3, 4, 5, 6}, other{};
  const std::array<std::int64_t, 1> counts{2};
  const Strided piece{data.data(), 2, 3, 3}, target{other.data(), 2, 3, 3};
  Metered metered(solo_communicator());
  metered.gather_blocks({{ElementType::float32, {piece}}}, nullptr)->wait();
  metered.reduce_blocks({{ElementType::float32, {piece}, ElementType::float32, target}}, nullptr)->wait();
  CHECK(other == data);
  metered.all_reduce(data.data(), 6, ElementType::float32, ReduceOperation::add, nullptr)->wait();
  other = {};
  metered.all_to_all_rows(data.data(), counts, other.data(), counts, 3, ElementType::float32, nullptr)->wait();
  CHECK(other == data);
  metered.broadcast(data.data(), 6, ElementType::float32, 0, nullptr)->wait();
  metered.broadcast(data.data(), 6, ElementType::float32, 0, nullptr)->wait();
  metered.barrier();
  CHECK(data == std::array<float, 6>{1, 2, 3, 4, 5, 6});
  for (std::size_t k = 0; k < operation_kinds; ++k) {
    const auto kind = static_cast<OperationKind>(k);
    CHECK(metered.traffic(kind).calls == (kind == OperationKind::broadcast ? 2 : 1));
  }
  CHECK(metered.traffic().calls == 6);  // a barrier carries nothing
  CHECK(metered.traffic().bytes_sent == 0);
}

TEST_CASE("two meters of one communicator count apart, and what a call refuses is not counted") {
  const auto shared = solo_communicator();
  Metered one(shared), other(shared);
  double value = 5;
  one.all_reduce(&value, 1, ElementType::float64, ReduceOperation::add, nullptr)->wait();
  CHECK_THROWS_AS(other.broadcast(&value, 1, ElementType::float64, 3, nullptr), std::logic_error);
  CHECK(one.traffic().calls == 1);
  CHECK(other.traffic().calls == 0);
  CHECK(one.wrapped() == other.wrapped());
}

TEST_CASE("a handle may outlive its meter, and tells when its call was made") {
  double value = 5;
  const double before = base::seconds_now();
  auto handle = [&] {
    Metered metered(solo_communicator());
    return metered.all_reduce(&value, 1, ElementType::float64, ReduceOperation::add, nullptr);
  }();
  const double after = base::seconds_now();
  handle->wait();
  CHECK(handle->span().started == handle->span().ended);
  CHECK((before <= handle->span().started && handle->span().ended <= after));
}

// What a GPU was asked to do, and how far it is.
struct Gpu {
  bool has_passed = false;
  int waits = 0;  // of the host
};

// An operation on that GPU: it runs from second 3 to second 5 and blocks the compute stream for 0.5 s of that time.
class GpuOperation final : public Operation {
 public:
  explicit GpuOperation(Gpu& gpu) : gpu_(gpu) {}
  void wait() override {}
  [[nodiscard]] Span span() const override {
    if (!gpu_.has_passed) ++gpu_.waits;
    return {3, 5};
  }
  [[nodiscard]] bool has_passed() const override { return gpu_.has_passed; }
  [[nodiscard]] std::optional<double> exposed_seconds() const override { return 0.5; }

 private:
  Gpu& gpu_;
};

// A group of one rank whose all-reduces are on the GPU.
class OnGpu final : public Communicator {
 public:
  explicit OnGpu(Gpu& gpu) : gpu_(gpu) {}
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t size() const override { return 1; }
  Handle all_reduce(void*, std::int64_t, ElementType, ReduceOperation, KeepAlive) override {
    return std::make_unique<GpuOperation>(gpu_);
  }
  Handle gather_blocks(std::vector<GatherBlock>, KeepAlive) override { return nullptr; }
  Handle reduce_blocks(std::vector<ReduceBlock>, KeepAlive) override { return nullptr; }
  Handle all_to_all_rows(const void*, std::span<const std::int64_t>, void*, std::span<const std::int64_t>, std::int64_t,
                         ElementType, KeepAlive) override {
    return nullptr;
  }
  Handle broadcast(void*, std::int64_t, ElementType, std::int64_t, KeepAlive) override { return nullptr; }
  void barrier() override {}
  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t>) override { return nullptr; }
  void set_name(std::string_view) override {}
  void set_label(std::string_view) override {}

 private:
  Gpu& gpu_;
};

TEST_CASE("the host waits for no operation on the GPU before its account is asked for") {
  Gpu gpu;
  Metered metered(std::make_shared<OnGpu>(gpu));
  double value = 5;
  const auto sum = [&] { return metered.all_reduce(&value, 1, ElementType::float64, ReduceOperation::add, nullptr); };
  for (int k = 0; k < 3; ++k) sum()->wait();
  CHECK(gpu.waits == 0);
  const auto traffic = metered.traffic();
  CHECK(gpu.waits == 3);
  CHECK(traffic.calls == 3);
  CHECK(traffic.seconds_under_way == 6);
  CHECK(traffic.seconds_exposed == 1.5);
}

TEST_CASE("operations that have passed on the GPU are counted without a wait, once") {
  Gpu gpu;
  Metered metered(std::make_shared<OnGpu>(gpu));
  double value = 5;
  const auto sum = [&] { return metered.all_reduce(&value, 1, ElementType::float64, ReduceOperation::add, nullptr); };
  sum()->wait();
  gpu.has_passed = true;
  const auto handle = sum();
  handle->wait();
  CHECK(handle->has_passed());
  CHECK(handle->exposed_seconds() == 0.5);
  CHECK(metered.traffic().seconds_under_way == 4);
  CHECK(metered.traffic().seconds_exposed == 1);
  CHECK(gpu.waits == 0);
}

}  // namespace
}  // namespace tessera::comm
