// If this failed, the timeline would show communication at the wrong time, or count wrong bytes for a group.
#include "comm/metered.h"

#include <chrono>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "elements.h"
#include "groups.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "values.h"

namespace tessera::test {
namespace {

using comm::ElementType;
using comm::Metered;
using comm::OperationKind;
using comm::ReduceOperation;

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

comm::Handle start_sum(comm::Communicator& group, const Values<double>& data, std::int64_t elements) {
  return group.all_reduce(data.data(), elements, ElementType::float64, ReduceOperation::add, nullptr);
}

// All ranks of a backend whose ranks have met in a sum before.
std::shared_ptr<comm::Communicator> met_world(const Values<double>& data, std::int64_t elements) {
  const auto world = groups_under_test().front().communicator;
  start_sum(*world, data, elements)->wait();
  return world;
}

TEST_CASE("an operation ends when it is done, not when it is waited for; what is hidden is not exposed") {
  constexpr double pause = 0.5;
  constexpr std::int64_t elements = 10007;
  const Values<double> data(std::vector<double>(elements, 1));
  Metered metered(met_world(data, elements));
  metered.barrier();
  const double called = base::seconds_now();
  const auto handle = start_sum(metered, data, elements);
  rest(pause);
  const double rested = base::seconds_now();
  handle->wait();
  const auto span = handle->span();
  CHECK_ON_ALL(called <= span.started && span.started <= span.ended && span.ended < rested);
  const auto traffic = metered.traffic(OperationKind::all_reduce);
  CHECK_ON_ALL(traffic.seconds_under_way == span.ended - span.started);
  CHECK_ON_ALL(0 <= traffic.seconds_exposed && traffic.seconds_exposed < pause / 2);
}

TEST_CASE("an operation is under way, and who waits is blocked, until the last rank has come") {
  constexpr double late = 0.3;
  constexpr std::int64_t elements = 10007;
  const Values<double> data(std::vector<double>(elements, 1));
  Metered metered(met_world(data, elements));
  metered.barrier();
  const bool is_late = world().rank() == world().size() - 1;
  if (is_late) rest(late);
  start_sum(metered, data, elements)->wait();
  const auto traffic = metered.traffic(OperationKind::all_reduce);
  // The ranks leave the barrier at slightly different times.
  CHECK_ON_ALL(is_late || (traffic.seconds_exposed > late / 2 && traffic.seconds_under_way > late / 2));
  CHECK_ON_ALL(metered.traffic(OperationKind::barrier).seconds_exposed > 0 || world().size() == 1);
}

// What rank `rank` of `ranks` sends in one call of each kind, of the sizes in the test below.
struct ExpectedBytes {
  std::int64_t gather, reduce, all_reduce, rows, broadcast;
};
ExpectedBytes expected_bytes(std::int64_t rank, std::int64_t ranks) {
  const auto others = ranks - 1, own = block_of(11, ranks, rank).size();
  return {.gather = 3 * own * 4 * others,
          .reduce = 3 * (11 - own) * 4,
          .all_reduce = 101 * 8 * others,
          .rows = (ranks * (ranks + 1) / 2 - (rank + 1)) * 5 * 4,
          .broadcast = rank == ranks - 1 ? 33 * 4 * others : 0};
}

TEST_CASE("each kind of operation counts the bytes that this rank sends, in groups of any size") {
  for (const auto& under_test : groups_under_test()) {
    INFO(under_test.name);
    Metered group(under_test.communicator);
    const auto ranks = group.size(), rank = group.rank();
    const Values<float> matrix(std::vector<float>(3 * 11)), sum(std::vector<float>(3 * 11));
    const Values<float> rows(std::vector<float>(static_cast<std::size_t>(5 * ranks * (ranks + 1) / 2)));
    const Values<float> received(std::vector<float>(static_cast<std::size_t>(5 * ranks * (rank + 1))));
    const Values<double> numbers(std::vector<double>(101));
    std::vector<comm::Strided> pieces;
    std::vector<std::int64_t> send_counts, receive_counts;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const auto block = block_of(11, ranks, k);
      pieces.push_back({matrix.data() + block.begin, 3, block.size(), 11});
      send_counts.push_back(k + 1);
      receive_counts.push_back(rank + 1);
    }
    const auto own = block_of(11, ranks, rank).size();
    group.gather_blocks({{ElementType::float32, pieces}}, nullptr)->wait();
    group.reduce_blocks({{ElementType::float32, pieces, ElementType::float32, {sum.data(), 3, own, own}}}, nullptr)
        ->wait();
    start_sum(group, numbers, 101)->wait();
    group.all_to_all_rows(rows.data(), send_counts, received.data(), receive_counts, 5, ElementType::float32, nullptr)
        ->wait();
    group.broadcast(matrix.data(), 33, ElementType::float32, ranks - 1, nullptr)->wait();
    group.barrier();

    const auto expected = expected_bytes(rank, ranks);
    const auto bytes = [&](OperationKind kind) { return group.traffic(kind).bytes_sent; };
    CHECK_ON_ALL(bytes(OperationKind::gather_blocks) == expected.gather);
    CHECK_ON_ALL(bytes(OperationKind::reduce_blocks) == expected.reduce);
    CHECK_ON_ALL(bytes(OperationKind::all_reduce) == expected.all_reduce);
    CHECK_ON_ALL(bytes(OperationKind::all_to_all_rows) == expected.rows);
    CHECK_ON_ALL(group.traffic().bytes_sent ==
                 expected.gather + expected.reduce + expected.all_reduce + expected.rows + expected.broadcast);
    CHECK_ON_ALL(group.traffic().calls == 5);  // a barrier carries nothing
    CHECK_ON_ALL(group.traffic(OperationKind::barrier).calls == 1);
  }
}

}  // namespace
}  // namespace tessera::test
