// If this failed, operations that mix host and GPU memory, or make the host wait, would go unnoticed here and fail, or
// be slow, on a GPU.
#include <ATen/ops/add.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/where.h>

#include "both_places.h"
#include "device/tensor_device.h"

using namespace tessera;
namespace torch_double = test::torch_double;
using Catch::Matchers::ContainsSubstring;
using test::integers;
using test::varied;
using torch_double::to_device;

namespace {

using Names = std::vector<std::string>;

// The synchronisations of `work`.
Names synchronisations_of(const std::function<void()>& work) {
  torch_double::reset_synchronisations();
  work();
  return torch_double::counted_synchronisations();
}

c10::List<std::optional<at::Tensor>> rows(const at::Tensor& index) {
  return c10::List<std::optional<at::Tensor>>({std::optional<at::Tensor>(index)});
}

at::Tensor index_of(const at::Tensor& x, const at::Tensor& index) { return at::index(x, rows(index)); }

}  // namespace

TEST_CASE("the place of a GPU is the double") {
  CHECK(device::tensor_device(device::Place::cpu) == at::kCPU);
  CHECK(device::tensor_device(device::Place::cuda) == torch_double::device());
}

TEST_CASE("tensors of two places are not computed with") {
  const auto x = varied({5, 5}, 1);
  const auto y = to_device(x);
  const auto index = integers({0, 2});
  const auto refused = ContainsSubstring("Expected all tensors to be on the same device");
  CHECK_THROWS_WITH(x.add(y), refused);
  CHECK_THROWS_WITH(y.add(x), refused);
  CHECK_THROWS_WITH(at::mm(y, x), refused);
  CHECK_THROWS_WITH(at::mm(x, y), refused);
  CHECK_THROWS_WITH(at::cat({y, x}), refused);
  CHECK_THROWS_WITH(at::index_select(y, 0, index), refused);
  CHECK_THROWS_WITH(index_of(y, index), refused);
  CHECK_THROWS_WITH(y.clone().index_put_(rows(index), y.narrow(0, 0, 2)), refused);
  CHECK_THROWS_WITH(y.clone().index_add_(0, to_device(index), x.narrow(0, 0, 2)), refused);
  auto on_cpu = at::empty({5, 5}, x.options());
  CHECK_THROWS_WITH(at::mm_out(on_cpu, y, y), refused);
  CHECK_THROWS_WITH(at::empty({}, x.options()).add_(y.sum()), refused);
}

TEST_CASE("a number of the host goes into elementwise operations alone") {
  const auto x = varied({3, 5}, 1), y = to_device(x);
  const auto two = at::scalar_tensor(2, x.options());
  CHECK(test::equal_bits(y.mul(two), x.mul(2)));
  CHECK(test::equal_bits(y.add(2.5), x.add(2.5)));
  CHECK(test::equal_bits(at::where(y.gt(0), y, at::scalar_tensor(7, x.options())),
                         at::where(x.gt(0), x, at::scalar_tensor(7, x.options()))));
  CHECK_THROWS_WITH(at::index_select(y, 0, at::scalar_tensor(1, at::kLong)),
                    ContainsSubstring("Expected all tensors to be on the same device"));
}

TEST_CASE("copies to the host are counted, and blocking ones from it") {
  const auto x = varied({3, 5}, 1);
  const auto y = to_device(x);
  CHECK(synchronisations_of([&] { y.cpu(); }) == Names{"copy to host"});
  CHECK(synchronisations_of([&] { y.to(at::kCPU, at::kDouble, /*non_blocking=*/true); }) == Names{"copy to host"});
  CHECK(synchronisations_of([&] { x.to(y.device()); }) == Names{"copy to device"});
  CHECK(synchronisations_of([&] { x.to(y.device(), at::kFloat, /*non_blocking=*/true); }).empty());
  CHECK(synchronisations_of([&] { y.clone().copy_(y).narrow(0, 0, 2).t().contiguous(); }).empty());
  CHECK(synchronisations_of([&] { at::empty({0, 5}, y.options()).cpu(); }).empty());
}

TEST_CASE("results that depend on data in their size are counted") {
  const auto counts = to_device(integers({2, 0, 3})), mask = counts.gt(0);
  CHECK(synchronisations_of([&] { CHECK(counts.sum().item<std::int64_t>() == 5); }) ==
        Names{"aten::_local_scalar_dense"});
  CHECK(synchronisations_of([&] { at::nonzero(counts); }) == Names{"aten::nonzero"});
  CHECK(synchronisations_of([&] { at::masked_select(counts, mask); }) == Names{"aten::masked_select"});
  CHECK(synchronisations_of([&] { at::unique_consecutive(counts); }) == Names{"aten::unique_consecutive"});
  CHECK(synchronisations_of([&] { at::bincount(counts); }) == Names{"aten::bincount"});
  CHECK(synchronisations_of([&] { CHECK(at::equal(counts, counts)); }) == Names{"aten::equal"});
  CHECK(synchronisations_of([&] { at::repeat_interleave(counts); }) == Names{"aten::repeat_interleave"});
  CHECK(synchronisations_of([&] { at::repeat_interleave(counts, 5); }).empty());
  CHECK(synchronisations_of([&] { index_of(counts, mask); }) == Names{"aten::nonzero"});
  CHECK(synchronisations_of([&] { counts.clone().index_put_(rows(mask), counts[0]); }).size() == 1);
  CHECK(synchronisations_of([&] { index_of(counts, counts.clamp_max(2)); }).empty());
}

TEST_CASE("operations are counted by name, views are not") {
  const auto x = to_device(varied({3, 5}, 1));
  torch_double::reset_launches();
  x.t().narrow(0, 1, 2).unsqueeze(0).view({2, 3}).detach();
  at::empty({7}, x.options());
  CHECK(torch_double::launch_count() == 0);
  at::mm(x, x.t()).add_(1).add_(2);
  CHECK(torch_double::launches() == std::map<std::string, std::int64_t>{{"aten::add", 2}, {"aten::mm", 1}});
}

TEST_CASE("an operation without a kernel for the CPU says where to write one") {
  const auto x = to_device(varied({2, 3, 5}, 1, at::kBFloat16));
  CHECK_THROWS_WITH(at::bmm(x, x.transpose(1, 2), at::kFloat), ContainsSubstring("has no kernel for the CPU"));
}
