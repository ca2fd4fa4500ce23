// If this failed, memory could be freed while an operation uses it, two runs could give different bits, or a group
// could have other ranks than it was made of.
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "backend.h"
#include "base/clock.h"
#include "groups.h"
#include "support/catch.h"
#include "support/delaying_communicator.h"
#include "support/ranks.h"
#include "values.h"

namespace tessera::test {
namespace {

using comm::Communicator;
using comm::ElementType;
using comm::ReduceOperation;

TEST_CASE("what an operation needs lives until it has been waited for") {
  constexpr std::int64_t elements = 10007;
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    auto kept = std::make_shared<const Values<float>>(std::vector<float>(elements, 1.0F));
    const std::weak_ptr<const Values<float>> watched = kept;
    const auto handle =
        group.communicator->all_reduce(kept->data(), elements, ElementType::float32, ReduceOperation::add, kept);
    kept.reset();
    const bool lived = group.communicator->size() == 1 || !watched.expired();
    handle->wait();
    CHECK_ON_ALL(lived && watched.expired());
  }
}

TEST_CASE("what an operation needs lives as long as it runs, though nobody waits for it") {
  constexpr std::int64_t elements = 40009;
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    {
      auto kept = std::make_shared<const Values<float>>(std::vector<float>(elements, 1.0F));
      const auto* const data = kept->data();
      static_cast<void>(group.communicator->all_reduce(const_cast<float*>(data), elements, ElementType::float32,
                                                       ReduceOperation::add, std::move(kept)));
    }
    group.communicator->barrier();
    const Values<std::int32_t> next({1});
    group.communicator->all_reduce(next.data(), 1, ElementType::int32, ReduceOperation::add, nullptr)->wait();
    CHECK_ON_ALL(next.read()[0] == group.communicator->size());
  }
}

TEST_CASE("no rank leaves a barrier before every rank has come") {
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    auto& ranks = *group.communicator;
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * ((ranks.rank() * 2 + 1) % 3)));
    const double came = base::seconds_now();
    ranks.barrier();
    const double left = base::seconds_now();
    const Values<double> last({came});
    ranks.all_reduce(last.data(), 1, ElementType::float64, ReduceOperation::max, nullptr)->wait();
    CHECK_ON_ALL(left >= last.read()[0]);
  }
}

// Sums whose bits depend on the order of the ranks.
std::vector<float> inexact_sum(Communicator& group, std::size_t elements) {
  std::vector<float> data(elements);
  for (std::size_t k = 0; k < elements; ++k)
    data[k] = std::sin(static_cast<float>(k)) / static_cast<float>(3 * group.rank() + 7);
  const Values<float> values(data);
  group
      .all_reduce(values.data(), static_cast<std::int64_t>(elements), ElementType::float32, ReduceOperation::add,
                  nullptr)
      ->wait();
  return values.read();
}

TEST_CASE("sums have the same bits on every rank and every time, however the ranks meet") {
  if (backend_bits() == SumBits::of_the_backend) return;
  DelayingCommunicator delayed(groups_under_test().front().communicator, 3);
  for (const std::size_t elements : {1001, 30011}) {
    std::vector<float> expected(elements);
    for (std::size_t k = 0; k < elements; ++k)
      for (std::int64_t rank = 0; rank < world().size(); ++rank) {
        const float value = std::sin(static_cast<float>(k)) / static_cast<float>(3 * rank + 7);
        expected[k] = rank == 0 ? value : expected[k] + value;
      }
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto sum = inexact_sum(delayed, elements);
      CHECK_ON_ALL(std::memcmp(sum.data(), expected.data(), elements * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("groups have the ranks that they were made of, in their order, and may be divided again") {
  const auto n = world().size();
  std::vector<std::int64_t> backwards, half;
  for (std::int64_t k = n - 1; k >= 0; --k) backwards.push_back(k);
  const auto group = world_under_test().make_group(backwards);
  CHECK_ON_ALL(group->size() == n && group->rank() == n - 1 - world().rank());
  // Of the group backwards: its first half and the rest.
  const auto begin = group->rank() < n / 2 ? 0 : n / 2, end = group->rank() < n / 2 ? n / 2 : n;
  for (auto k = begin; k < end; ++k) half.push_back(k);
  const auto part = group->make_group(half);
  CHECK_ON_ALL(part->size() == end - begin && part->rank() == group->rank() - begin);
  const Values<std::int64_t> sum({static_cast<std::int64_t>(1) << world().rank()});
  std::int64_t expected = 0;
  for (auto k = begin; k < end; ++k) expected += std::int64_t{1} << (n - 1 - k);
  part->all_reduce(sum.data(), 1, ElementType::int64, ReduceOperation::add, nullptr)->wait();
  CHECK_ON_ALL(sum.read()[0] == expected);
}

template <class Call>
bool is_logic_error(Call call) {
  try {
    call();
  } catch (const std::logic_error&) {
    return true;
  }
  return false;
}

TEST_CASE("groups that overlap, or that miss the rank which makes them, are the programmer's fault on every rank") {
  auto& all = world_under_test();
  const auto n = world().size();
  const std::vector<std::int64_t> overlapping{world().rank(), (world().rank() + 1) % n};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all.make_group(overlapping)); }));
  const std::vector<std::int64_t> none{};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all.make_group(none)); }));
  const std::vector<std::int64_t> outside{world().rank(), n};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all.make_group(outside)); }));
}

}  // namespace
}  // namespace tessera::test
