// If this failed, operations of several groups could block or mix with each other, memory could be freed under one, or
// two runs give other bits.
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/agreement.h"
#include "groups.h"
#include "support/catch.h"
#include "support/delaying_communicator.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

using comm::Communicator;
using comm::ElementType;
using comm::ReduceOperation;

TEST_CASE("operations of several groups, started in another order on each rank, do not wait for each other") {
  constexpr std::size_t elements = 20011;
  const auto& all = world().communicator();
  const auto second = all->make_group(std::vector<std::int64_t>(1, world().rank()));
  std::vector<std::int64_t> everyone(static_cast<std::size_t>(world().size()));
  for (std::size_t k = 0; k < everyone.size(); ++k) everyone[k] = static_cast<std::int64_t>(k);
  const auto third = all->make_group(everyone);
  CHECK_ON_ALL(second->size() == 1 && third->size() == world().size());

  std::vector<double> a(elements, 1), b(elements, 2), c(elements, 3), d(elements, 4);
  const auto start = [&](Communicator& group, std::vector<double>& data) {
    return group.all_reduce(data.data(), elements, ElementType::float64, ReduceOperation::add, nullptr);
  };
  std::vector<comm::Handle> handles;
  if (world().rank() % 2 == 0) {
    for (auto* data : {&a, &b}) handles.push_back(start(*all, *data));
    for (auto* data : {&c, &d}) handles.push_back(start(*third, *data));
  } else {
    for (auto* data : {&c, &d}) handles.push_back(start(*third, *data));
    for (auto* data : {&a, &b}) handles.push_back(start(*all, *data));
  }
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) (*handle)->wait();
  const auto n = static_cast<double>(world().size());
  const auto all_are = [](const std::vector<double>& data, double value) {
    return std::all_of(data.begin(), data.end(), [&](double x) { return x == value; });
  };
  CHECK_ON_ALL(all_are(a, n) && all_are(b, 2 * n) && all_are(c, 3 * n) && all_are(d, 4 * n));
}

TEST_CASE("what an operation needs lives until it has been waited for") {
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    const auto memory = std::make_shared<std::vector<float>>(10007, 1.0F);
    std::weak_ptr<std::vector<float>> watched;
    bool lived = false;
    {
      auto kept = std::make_shared<std::vector<float>>(*memory);
      watched = kept;
      const auto handle =
          group.communicator->all_reduce(kept->data(), 10007, ElementType::float32, ReduceOperation::add, kept);
      kept.reset();
      lived = group.communicator->size() == 1 || !watched.expired();
      handle->wait();
    }
    CHECK_ON_ALL(lived && watched.expired());
  }
}

TEST_CASE("no rank leaves a barrier before every rank has come") {
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    auto& ranks = *group.communicator;
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * ((ranks.rank() * 2 + 1) % 3)));
    double came = base::seconds_now();
    ranks.barrier();
    const double left = base::seconds_now();
    ranks.all_reduce(&came, 1, ElementType::float64, ReduceOperation::max, nullptr)->wait();
    CHECK_ON_ALL(left >= came);
  }
}

// Sums whose bits depend on the order of the ranks.
std::vector<float> inexact_sum(Communicator& group, std::size_t elements) {
  std::vector<float> data(elements);
  for (std::size_t k = 0; k < elements; ++k)
    data[k] = std::sin(static_cast<float>(k)) / static_cast<float>(3 * group.rank() + 7);
  group
      .all_reduce(data.data(), static_cast<std::int64_t>(elements), ElementType::float32, ReduceOperation::add, nullptr)
      ->wait();
  return data;
}

TEST_CASE("sums have the same bits on every rank and every time, however the ranks meet") {
  DelayingCommunicator delayed(world().communicator(), 3);
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
  const auto group = world().communicator()->make_group(backwards);
  CHECK_ON_ALL(group->size() == n && group->rank() == n - 1 - world().rank());
  // Of the group backwards: its first half and the rest.
  const auto begin = group->rank() < n / 2 ? 0 : n / 2, end = group->rank() < n / 2 ? n / 2 : n;
  for (auto k = begin; k < end; ++k) half.push_back(k);
  const auto part = group->make_group(half);
  CHECK_ON_ALL(part->size() == end - begin && part->rank() == group->rank() - begin);
  auto sum = static_cast<std::int64_t>(1) << world().rank();
  std::int64_t expected = 0;
  for (auto k = begin; k < end; ++k) expected += std::int64_t{1} << (n - 1 - k);
  part->all_reduce(&sum, 1, ElementType::int64, ReduceOperation::add, nullptr)->wait();
  CHECK_ON_ALL(sum == expected);
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
  const auto& all = world().communicator();
  const auto n = world().size();
  const std::vector<std::int64_t> overlapping{world().rank(), (world().rank() + 1) % n};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all->make_group(overlapping)); }));
  const std::vector<std::int64_t> none{};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all->make_group(none)); }));
  const std::vector<std::int64_t> outside{world().rank(), n};
  CHECK_ON_ALL(is_logic_error([&] { static_cast<void>(all->make_group(outside)); }));
}

std::string agreed_error(const std::optional<comm::Failure>& failure, base::ExitCode expected_code) {
  try {
    comm::agree(*world().communicator(), failure);
  } catch (const comm::AgreedError& error) {
    return error.code() == expected_code ? error.what() : "another code";
  }
  return "no error";
}

TEST_CASE("the failure of one rank is every rank's, with its code and words") {
  const auto n = world().size();
  CHECK_ON_ALL(agreed_error(std::nullopt, base::ExitCode::done) == "no error");
  for (std::int64_t first = 0; first < n; ++first) {
    // The first rank that failed speaks for those after it.
    std::optional<comm::Failure> failure;
    const auto words = [](std::int64_t rank) { return "file " + std::to_string(rank) + " is missing"; };
    if (world().rank() >= first) failure = comm::Failure{base::ExitCode::non_finite, words(world().rank())};
    const auto expected = n == 1 ? words(0) : "rank " + std::to_string(first) + ": " + words(first);
    CHECK_ON_ALL(agreed_error(failure, base::ExitCode::non_finite) == expected);
  }
}

}  // namespace
}  // namespace tessera::test
