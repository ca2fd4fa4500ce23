// If this failed, sums on GPUs with `deterministic`, or in bfloat16, would have other bits than sums on CPUs.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend.h"
#include "elements.h"
#include "groups.h"
#include "support/catch.h"
#include "support/cuda_double/faults.h"
#include "support/ranks.h"
#include "values.h"

namespace tessera::test {
namespace {

using comm::Communicator;
using comm::ElementType;
using comm::ReduceOperation;

// Of every magnitude between 2^-20 and 2^20, so that the order of a sum shows in its bits.
double random_value(std::minstd_rand& random) {
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 20);
  return std::ldexp(mantissa(random), exponent(random));
}

template <class T>
std::vector<T> random_values(std::int64_t elements) {
  std::minstd_rand random(17U + static_cast<std::uint32_t>(world().rank()));
  std::vector<T> values;
  for (std::int64_t k = 0; k < elements; ++k) values.push_back(T(random_value(random)));
  return values;
}

template <class T>
bool have_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// The bits of the type depend on the backend.
template <class T>
bool is_free() {
  return backend_bits() == SumBits::of_the_backend && TypeOf<T>::type != ElementType::bfloat16;
}

TEMPLATE_TEST_CASE("an all-reduce has the bits of the one on the host", "", float, Bfloat16, double) {
  constexpr auto type = TypeOf<TestType>::type;
  if (is_free<TestType>()) return;
  for (const std::int64_t elements : {1, 1021, 30011, 36012})
    for (const auto operation : {ReduceOperation::add, ReduceOperation::max}) {
      auto expected = random_values<TestType>(elements);
      const Values<TestType> values(expected);
      world().communicator()->all_reduce(expected.data(), elements, type, operation, nullptr)->wait();
      world_under_test().all_reduce(values.data(), elements, type, operation, nullptr)->wait();
      CHECK_ON_ALL(have_same_bits(values.read(), expected));
    }
}

template <class T>
comm::ReduceBlock block_on(T* data, typename TypeOf<T>::Sum* sum, std::int64_t rows, std::int64_t columns) {
  const auto ranks = world().size();
  comm::ReduceBlock block{.type = TypeOf<T>::type, .pieces = {}, .sum_type = TypeOf<typename TypeOf<T>::Sum>::type};
  for (std::int64_t k = 0; k < ranks; ++k) {
    const auto part = block_of(columns, ranks, k);
    block.pieces.push_back({data + part.begin, rows, part.size(), columns});
  }
  const auto own = block_of(columns, ranks, world().rank()).size();
  block.sum = {sum, rows, own, own};
  return block;
}

TEMPLATE_TEST_CASE("a reduction has the bits of the one on the host", "", float, Bfloat16, double) {
  using Sum = typename TypeOf<TestType>::Sum;
  if (is_free<TestType>()) return;
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{7, 101}, {5, 12}, {1, 4001}}) {
    auto data = random_values<TestType>(rows * columns);
    auto expected = random_values<Sum>(rows * block_of(columns, world().size(), world().rank()).size());
    const Values<TestType> values(data);
    const Values<Sum> sum(expected);
    world().communicator()->reduce_blocks({block_on(data.data(), expected.data(), rows, columns)}, nullptr)->wait();
    world_under_test().reduce_blocks({block_on(values.data(), sum.data(), rows, columns)}, nullptr)->wait();
    CHECK_ON_ALL(have_same_bits(sum.read(), expected));
  }
}

TEST_CASE("an operation that needs more room than any before it leaves those under way alone") {
  const std::vector<std::int64_t> sizes{200003, 400009, 800011};
  std::vector<std::unique_ptr<const Values<Bfloat16>>> values;
  for (const auto elements : sizes) {
    std::vector<Bfloat16> own;
    for (std::int64_t k = 0; k < elements; ++k) own.emplace_back(contribution(world().rank(), k));
    values.push_back(std::make_unique<const Values<Bfloat16>>(own));
  }
  std::vector<comm::Handle> handles;
  for (std::size_t s = 0; s < sizes.size(); ++s)
    handles.push_back(world_under_test().all_reduce(values[s]->data(), sizes[s], ElementType::bfloat16,
                                                    ReduceOperation::add, nullptr));
  bool right = true;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    handles[s]->wait();
    const auto sums = values[s]->read();
    for (std::size_t k = 0; k < sums.size(); ++k)
      right &= sums[k] == Bfloat16(sum_of(world().size(), static_cast<std::int64_t>(k)));
  }
  CHECK_ON_ALL(right);
}

// The watch looks at every communicator ten times a second.
TEST_CASE("the watch asks NCCL for errors only between the calls of the thread that communicates") {
  const auto ranks = make_backend();
  Values<float> values(std::vector<float>(3, 1));
  for (int k = 0; k < 2000; ++k)
    ranks->all_reduce(values.data(), 3, ElementType::float32, ReduceOperation::max, nullptr)->wait();
  CHECK_ON_ALL(faults().empty());
}

}  // namespace
}  // namespace tessera::test
