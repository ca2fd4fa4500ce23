// If this failed, gradients, parameters or rows would reach the wrong rank, the wrong place, or be summed wrongly.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "elements.h"
#include "groups.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "values.h"

namespace tessera::test {
namespace {

using comm::Communicator;
using comm::ReduceOperation;
using comm::Strided;

// Runs `body(communicator) -> bool` in each group; it must return true on all ranks of the world.
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
  // None, fewer than ranks, one round of messages, and blocks: uneven, and even for 2 to 4 ranks.
  for (const std::int64_t elements : {0, 1, 3, 1021, 40009, 36012}) {
    INFO(elements << " elements");
    in_each_group([&](Communicator& group) {
      const auto type = TypeOf<TestType>::type;
      const Values<TestType> sum(contributions<TestType>(group, elements)),
          largest(contributions<TestType>(group, elements));
      const auto adding = group.all_reduce(sum.data(), elements, type, ReduceOperation::add, nullptr);
      group.all_reduce(largest.data(), elements, type, ReduceOperation::max, nullptr)->wait();
      adding->wait();
      const auto sums = sum.read(), maxima = largest.read();
      bool right = true;
      for (std::int64_t k = 0; k < elements; ++k) {
        const auto at = static_cast<std::size_t>(k);
        right &= sums[at] == static_cast<TestType>(sum_of(group.size(), k));
        right &= maxima[at] == static_cast<TestType>(largest_of(group.size(), k));
      }
      return right;
    });
  }
}

TEST_CASE("1.5 and 2.25 make 3.75 in bfloat16, not the sum of their bits") {
  in_each_group([](Communicator& group) {
    const Values<Bfloat16> value({Bfloat16(group.rank() == 0 ? 1.5 : group.rank() == 1 ? 2.25 : 0)});
    group.all_reduce(value.data(), 1, comm::ElementType::bfloat16, ReduceOperation::add, nullptr)->wait();
    return value.read()[0].bits == (group.size() == 1 ? 0x3FC0 : 0x4070);
  });
}

TEST_CASE("the largest of values of which one is NaN is NaN, whichever rank has it") {
  in_each_group([](Communicator& group) {
    bool right = true;
    for (std::int64_t where = 0; where < group.size(); ++where) {
      std::vector<double> values{static_cast<double>(group.rank()), 7};
      if (group.rank() == where) values[0] = std::numeric_limits<double>::quiet_NaN();
      const Values<double> on_backend(values);
      group.all_reduce(on_backend.data(), 2, comm::ElementType::float64, ReduceOperation::max, nullptr)->wait();
      const auto largest = on_backend.read();
      right &= std::isnan(largest[0]) && largest[1] == 7;
    }
    return right;
  });
}

// A matrix [rows, columns] of which each rank has the columns of its block.
std::vector<Strided> cut_by_columns(void* data, std::size_t element, std::int64_t rows, std::int64_t columns,
                                    std::int64_t ranks) {
  std::vector<Strided> pieces;
  for (std::int64_t k = 0; k < ranks; ++k) {
    const auto block = block_of(columns, ranks, k);
    pieces.push_back(
        {static_cast<std::byte*>(data) + static_cast<std::size_t>(block.begin) * element, rows, block.size(), columns});
  }
  return pieces;
}

template <class T>
bool gathers(Communicator& group, std::int64_t rows, std::int64_t columns) {
  const auto at = [&](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * columns + c); };
  std::vector<T> matrix(static_cast<std::size_t>(rows * columns), T(99));
  std::vector<Bfloat16> small(5, Bfloat16(99));  // gathered beside it, cut along its one dim
  const auto own = block_of(columns, group.size(), group.rank()), own_small = block_of(5, group.size(), group.rank());
  for (auto e = own_small.begin; e < own_small.end; ++e)
    small[static_cast<std::size_t>(e)] = Bfloat16(double(10 * group.rank() + e));
  for (std::int64_t r = 0; r < rows; ++r)
    for (auto c = own.begin; c < own.end; ++c) matrix[at(r, c)] = T(contribution(group.rank(), r * columns + c));
  const Values<T> matrix_values(matrix);
  const Values<Bfloat16> small_values(small);
  std::vector<comm::GatherBlock> blocks{
      {comm::ElementType::bfloat16, cut_by_columns(small_values.data(), sizeof(Bfloat16), 1, 5, group.size())},
      {TypeOf<T>::type, cut_by_columns(matrix_values.data(), sizeof(T), rows, columns, group.size())}};
  group.gather_blocks(std::move(blocks), nullptr)->wait();

  matrix = matrix_values.read();
  small = small_values.read();
  bool right = true;
  for (std::int64_t k = 0; k < group.size(); ++k) {
    const auto block = block_of(columns, group.size(), k), of_small = block_of(5, group.size(), k);
    for (std::int64_t r = 0; r < rows; ++r)
      for (auto c = block.begin; c < block.end; ++c) right &= matrix[at(r, c)] == T(contribution(k, r * columns + c));
    for (auto e = of_small.begin; e < of_small.end; ++e)
      right &= small[static_cast<std::size_t>(e)] == Bfloat16(double(10 * k + e));
  }
  return right;
}

// Shapes whose columns two, three and four ranks cut unevenly, and evenly.
const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{3, 5},    {1, 1},     {0, 7},  {7, 0},
                                                                {131, 17}, {11, 1013}, {5, 12}, {1, 12108}};

TEMPLATE_TEST_CASE("gathered blocks, uneven and empty ones too, arrive in their places", "", float, Bfloat16, double) {
  for (const auto& shape : shapes) {
    INFO(shape.first << " x " << shape.second);
    in_each_group([&](Communicator& group) { return gathers<TestType>(group, shape.first, shape.second); });
  }
}

template <class T>
bool reduces(Communicator& group, std::int64_t rows, std::int64_t columns) {
  using Sum = typename TypeOf<T>::Sum;
  constexpr std::int64_t gap = 3;
  const Values<T> matrix(contributions<T>(group, rows * columns));
  const Values<std::int64_t> other(contributions<std::int64_t>(group, 7));  // beside it, cut along its one dim
  const auto own = block_of(columns, group.size(), group.rank()), of_other = block_of(7, group.size(), group.rank());
  const auto stride = own.size() + gap;
  const Values<Sum> sum_values(std::vector<Sum>(static_cast<std::size_t>(rows * stride), Sum(1000)));
  const Values<std::int64_t> other_values(std::vector<std::int64_t>(static_cast<std::size_t>(of_other.size()), 5));
  std::vector<comm::ReduceBlock> blocks{{TypeOf<T>::type,
                                         cut_by_columns(matrix.data(), sizeof(T), rows, columns, group.size()),
                                         TypeOf<Sum>::type,
                                         {sum_values.data(), rows, own.size(), stride}},
                                        {comm::ElementType::int64,
                                         cut_by_columns(other.data(), sizeof(std::int64_t), 1, 7, group.size()),
                                         comm::ElementType::int64,
                                         {other_values.data(), 1, of_other.size(), of_other.size()}}};
  group.reduce_blocks(std::move(blocks), nullptr)->wait();

  const auto sum = sum_values.read();
  const auto other_sum = other_values.read();
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
  for (const auto& shape : shapes) {
    INFO(shape.first << " x " << shape.second);
    in_each_group([&](Communicator& group) { return reduces<TestType>(group, shape.first, shape.second); });
  }
}

using Counts = std::int64_t (*)(std::int64_t from, std::int64_t to);

// Row `row` of the rows that rank `from` sends to rank `to`.
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
  const Values<float> sent(send), received(std::vector<float>(expected.size(), -1));
  group
      .all_to_all_rows(sent.data(), send_counts, received.data(), receive_counts, width, comm::ElementType::float32,
                       nullptr)
      ->wait();
  return received.read() == expected;
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
        const Values<std::int32_t> values(data);
        group.broadcast(values.data(), elements, comm::ElementType::int32, root, nullptr)->wait();
        data = values.read();
        for (std::size_t k = 0; k < data.size(); ++k) right &= data[k] == static_cast<std::int32_t>(k) + root;
      }
      return right;
    });
}

}  // namespace
}  // namespace tessera::test
