// If this failed, operations would be missing from a run's account, or be altered by being counted.
#include "comm/metered.h"

#include <array>

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

}  // namespace
}  // namespace tessera::comm
