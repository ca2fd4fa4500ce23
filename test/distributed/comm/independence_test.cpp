// If this failed, operations of several groups on host memory could block each other or mix their data.
#include <algorithm>
#include <vector>

#include "support/catch.h"
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

}  // namespace
}  // namespace tessera::test
