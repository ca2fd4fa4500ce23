// If this failed, gradients, parameters or rows would reach the wrong rank, the wrong place, or be summed wrongly.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "elements.h"
#include "groups.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

using comm::Communicator;
using comm::ReduceOperation;
using comm::Strided;

// Runs `body(communicator) -> bool` in each group; all ranks of the world must say true.
template <class Body>
void in_each_group(Body body) {
  for (const auto& group : groups_under_test()) {
    INFO(group.name);
    CHECK_ON_ALL(body(*group.communicator));
  }
}

template <class T>
std::vector<T> contributions(const Communicator& group, std::int64_t elements) {
  std::vector<T> data;
  for (std::int64_t k = 0; k < elements; ++k) data.push_back(static_cast<T>(contribution(group.rank(), k)));
  return data;
}

TEMPLATE_TEST_CASE("an all-reduce gives every rank the sum, or the largest, of all", "", float, Bfloat16, double,
                   std::int32_t, std::int64_t) {
  // None, fewer than ranks, one round of messages, and blocks.
  for (const std::int64_t elements : {0, 1, 3, 1021, 40009}) {
    INFO(elements << " elements");
    in_each_group([&](Communicator& group) {
      auto sum = contributions<TestType>(group, elements), largest = sum;
      const auto type = TypeOf<TestType>::type;
      const auto adding = group.all_reduce(sum.data(), elements, type, ReduceOperation::add, nullptr);
      group.all_reduce(largest.data(), elements, type, ReduceOperation::max, nullptr)->wait();
      adding->wait();
      bool right = true;
      for (std::int64_t k = 0; k < elements; ++k) {
        const auto at = static_cast<std::size_t>(k);
        right &= sum[at] == static_cast<TestType>(sum_of(group.size(), k));
        right &= largest[at] == static_cast<TestType>(largest_of(group.size(), k));
      }
      return right;
    });
  }
}

TEST_CASE("1.5 and 2.25 make 3.75 in bfloat16, not the sum of their bits") {
  in_each_group([](Communicator& group) {
    std::array<Bfloat16, 1> value{Bfloat16(group.rank() == 0 ? 1.5 : group.rank() == 1 ? 2.25 : 0)};
    group.all_reduce(value.data(), 1, comm::ElementType::bfloat16, ReduceOperation::add, nullptr)->wait();
    return value[0].bits == (group.size() == 1 ? 0x3FC0 : 0x4070);
  });
}

// A matrix [rows, columns] of which each rank has the columns of its block.
template <class T>
struct CutByColumns {
  std::int64_t rows, columns;
  std::vector<T> data = std::vector<T>(static_cast<std::size_t>(rows * columns), T(99));

  [[nodiscard]] T& at(std::int64_t row, std::int64_t column) {
    return data[static_cast<std::size_t>(row * columns + column)];
  }
  [[nodiscard]] Strided piece(std::int64_t ranks, std::int64_t k) {
    const auto block = block_of(columns, ranks, k);
    return {data.data() + block.begin, rows, block.size(), columns};
  }
  [[nodiscard]] std::vector<Strided> pieces(std::int64_t ranks) {
    std::vector<Strided> all;
    for (std::int64_t k = 0; k < ranks; ++k) all.push_back(piece(ranks, k));
    return all;
  }
};

template <class T>
bool gathers(Communicator& group, std::int64_t rows, std::int64_t columns) {
  CutByColumns<T> matrix{rows, columns};
  std::vector<Bfloat16> small(5, Bfloat16(99));  // gathered beside it, cut along its one dim
  comm::GatherBlock small_block{.type = comm::ElementType::bfloat16, .pieces = {}};
  for (std::int64_t k = 0; k < group.size(); ++k) {
    const auto block = block_of(5, group.size(), k);
    small_block.pieces.push_back({small.data() + block.begin, 1, block.size(), block.size()});
    if (k != group.rank()) continue;
    for (auto e = block.begin; e < block.end; ++e) small[static_cast<std::size_t>(e)] = Bfloat16(double(10 * k + e));
  }
  const auto own = block_of(columns, group.size(), group.rank());
  for (std::int64_t r = 0; r < rows; ++r)
    for (auto c = own.begin; c < own.end; ++c) matrix.at(r, c) = T(contribution(group.rank(), r * columns + c));
  std::vector<comm::GatherBlock> blocks{small_block, {TypeOf<T>::type, matrix.pieces(group.size())}};
  group.gather_blocks(std::move(blocks), nullptr)->wait();

  bool right = true;
  for (std::int64_t k = 0; k < group.size(); ++k) {
    const auto block = block_of(columns, group.size(), k), of_small = block_of(5, group.size(), k);
    for (std::int64_t r = 0; r < rows; ++r)
      for (auto c = block.begin; c < block.end; ++c) right &= matrix.at(r, c) == T(contribution(k, r * columns + c));
    for (auto e = of_small.begin; e < of_small.end; ++e)
      right &= small[static_cast<std::size_t>(e)] == Bfloat16(double(10 * k + e));
  }
  return right;
}

TEMPLATE_TEST_CASE("gathered blocks, uneven and empty ones too, arrive in their places", "", float, Bfloat16, double) {
  for (const auto& [rows, columns] : {std::pair{3, 5}, {1, 1}, {0, 7}, {7, 0}, {131, 17}, {11, 1013}}) {
    INFO(rows << " x " << columns);
    in_each_group([&](Communicator& group) { return gathers<TestType>(group, rows, columns); });
  }
}

template <class T>
bool reduces(Communicator& group, std::int64_t rows, std::int64_t columns) {
  using Sum = typename TypeOf<T>::Sum;
  constexpr std::int64_t gap = 3;
  CutByColumns<T> matrix{rows, columns};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) matrix.at(r, c) = T(contribution(group.rank(), r * columns + c));
  std::vector<std::int64_t> other(7);  // reduced beside it, cut along its one dim
  for (std::int64_t e = 0; e < 7; ++e) other[static_cast<std::size_t>(e)] = std::int64_t(contribution(group.rank(), e));

  const auto own = block_of(columns, group.size(), group.rank()), of_other = block_of(7, group.size(), group.rank());
  const auto stride = own.size() + gap;
  std::vector<Sum> sum(static_cast<std::size_t>(rows * stride), Sum(1000));
  std::vector<std::int64_t> other_sum(static_cast<std::size_t>(of_other.size()), 5);
  comm::ReduceBlock other_block{.type = comm::ElementType::int64, .pieces = {}, .sum_type = comm::ElementType::int64};
  for (std::int64_t k = 0; k < group.size(); ++k) {
    const auto block = block_of(7, group.size(), k);
    other_block.pieces.push_back({other.data() + block.begin, 1, block.size(), block.size()});
  }
  other_block.sum = {other_sum.data(), 1, of_other.size(), of_other.size()};
  std::vector<comm::ReduceBlock> blocks{
      {TypeOf<T>::type, matrix.pieces(group.size()), TypeOf<Sum>::type, {sum.data(), rows, own.size(), stride}},
      other_block};
  group.reduce_blocks(std::move(blocks), nullptr)->wait();

  bool right = true;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < stride; ++c) {
      const auto added = c < own.size() ? sum_of(group.size(), r * columns + own.begin + c) : 0;
      right &= sum[static_cast<std::size_t>(r * stride + c)] == Sum(1000 + added);
    }
  for (std::int64_t e = 0; e < of_other.size(); ++e)
    right &= other_sum[static_cast<std::size_t>(e)] == 5 + std::int64_t(sum_of(group.size(), of_other.begin + e));
  return right;
}

TEMPLATE_TEST_CASE("a reduction adds the sum of each rank's piece to what is there, and touches nothing beside it", "",
                   float, Bfloat16, double, std::int32_t, std::int64_t) {
  for (const auto& [rows, columns] : {std::pair{3, 5}, {1, 1}, {0, 7}, {7, 0}, {131, 17}, {11, 1013}}) {
    INFO(rows << " x " << columns);
    in_each_group([&](Communicator& group) { return reduces<TestType>(group, rows, columns); });
  }
}

using Counts = std::int64_t (*)(std::int64_t from, std::int64_t to);

// Row `row` of those that `from` sends `to`.
float row_value(std::int64_t from, std::int64_t to, std::int64_t row) {
  return static_cast<float>(1000 * from + 100 * to + row);
}

bool exchanges(Communicator& group, Counts count) {
  constexpr std::int64_t width = 13;
  std::vector<std::int64_t> send_counts, receive_counts;
  std::vector<float> send, expected;
  for (std::int64_t k = 0; k < group.size(); ++k) {
    send_counts.push_back(count(group.rank(), k));
    receive_counts.push_back(count(k, group.rank()));
    for (std::int64_t row = 0; row < send_counts.back(); ++row)
      send.insert(send.end(), width, row_value(group.rank(), k, row));
    for (std::int64_t row = 0; row < receive_counts.back(); ++row)
      expected.insert(expected.end(), width, row_value(k, group.rank(), row));
  }
  std::vector<float> receive(expected.size(), -1);
  group
      .all_to_all_rows(send.data(), send_counts, receive.data(), receive_counts, width, comm::ElementType::float32,
                       nullptr)
      ->wait();
  return receive == expected;
}

TEST_CASE("rows reach their ranks, whatever the counts") {
  const std::vector<std::pair<const char*, Counts>> cases{
      {"uneven", [](std::int64_t from, std::int64_t to) { return (2 * from + 3 * to + 1) % 5; }},
      {"all rows to rank 0", [](std::int64_t, std::int64_t to) { return to == 0 ? std::int64_t{7} : 0; }},
      {"a rank without rows", [](std::int64_t from, std::int64_t) { return from == 0 ? 0 : std::int64_t{3}; }},
      {"no rows at all", [](std::int64_t, std::int64_t) { return std::int64_t{0}; }},
      {"many rows", [](std::int64_t from, std::int64_t to) { return 401 + from + to; }}};
  for (const auto& [name, count] : cases) {
    INFO(name);
    in_each_group([&, counts = count](Communicator& group) { return exchanges(group, counts); });
  }
}

TEST_CASE("a broadcast brings the root's data, whichever rank it is") {
  for (const std::int64_t elements : {0, 1, 5003})
    in_each_group([&](Communicator& group) {
      bool right = true;
      for (std::int64_t root = 0; root < group.size(); ++root) {
        std::vector<std::int32_t> data(static_cast<std::size_t>(elements));
        if (group.rank() == root) std::iota(data.begin(), data.end(), static_cast<std::int32_t>(root));
        group.broadcast(data.data(), elements, comm::ElementType::int32, root, nullptr)->wait();
        for (std::size_t k = 0; k < data.size(); ++k) right &= data[k] == static_cast<std::int32_t>(k) + root;
      }
      return right;
    });
}

}  // namespace
}  // namespace tessera::test
