// If this failed, the stand-in for a GPU would accept operations in ways that CUDA refuses, or compute other values
// than CUDA's kernels.
#include <ATen/Context.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>

#include <cstdlib>

#include "both_places.h"

using namespace tessera;
namespace torch_double = test::torch_double;
using Catch::Matchers::ContainsSubstring;
using test::distance;
using test::integers;
using test::on_device;
using test::Tensors;
using test::varied;
using torch_double::to_device;

namespace {

at::Tensor ends(const std::vector<std::int64_t>& values) { return to_device(integers(values).to(at::kInt)); }

at::Tensor wide(const at::Tensor& tensor) { return tensor.cpu().to(at::kDouble); }

// As the norm's formula says, differentiable.
at::Tensor norm_by_formula(const at::Tensor& x, const at::Tensor& gain, double epsilon) {
  return x.mul(at::rsqrt(x.square().mean(-1, true).add(epsilon))).mul(gain);
}

}  // namespace

TEST_CASE("a product of bfloat16 has a float32 result that was not rounded") {
  const auto a = varied({7, 5}, 1, at::kBFloat16), b = varied({5, 11}, 2, at::kBFloat16);
  const auto c = varied({7, 11}, 3, at::kFloat);
  const auto exact = at::mm(wide(a), wide(b));
  const auto moved = on_device({a, b, c});
  CHECK(distance(at::mm(moved[0], moved[1], at::kFloat).cpu(), exact) < 1e-6);
  CHECK(distance(at::addmm(moved[2], moved[0], moved[1], at::kFloat, 0.5, 2).cpu(),
                 wide(c).mul(0.5).add(exact.mul(2))) < 1e-6);
  auto sum = moved[2].clone();
  at::addmm_out(sum, sum, moved[0], moved[1], at::kFloat);
  CHECK(distance(sum.cpu(), wide(c).add(exact)) < 1e-6);
  auto out = at::empty({11, 7}, moved[2].options()).t();
  at::mm_out(out, moved[0], moved[1], at::kFloat);
  CHECK(distance(out.cpu(), exact) < 1e-6);
}

TEST_CASE("products whose operands CUDA does not take are refused") {
  const auto a = to_device(varied({7, 5}, 1, at::kBFloat16)), b = to_device(varied({5, 11}, 2, at::kBFloat16));
  CHECK_THROWS_WITH(at::mm(a, b, at::kDouble), ContainsSubstring("a result of Double"));
  CHECK_THROWS_WITH(at::mm(a, b.to(at::kFloat), at::kFloat), ContainsSubstring("operands of BFloat16 and Float"));
  CHECK_THROWS_WITH(at::mm(a, a, at::kFloat), ContainsSubstring("do not fit"));
  CHECK_THROWS_WITH(at::mm(a, b.cpu(), at::kFloat), ContainsSubstring("Expected all tensors to be on the same device"));
  auto out = at::empty({7, 11}, b.options());
  CHECK_THROWS_WITH(at::mm_out(out, a, b, at::kFloat), ContainsSubstring("the output does not have"));
}

TEST_CASE("a grouped product multiplies each range of rows by its matrix, and writes no row behind the last") {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    const auto x = to_device(varied({13, 16}, 1, type)), w = to_device(varied({3, 24, 16}, 2, type));
    const auto group_ends = ends({4, 4, 11});
    torch_double::reset_synchronisations();
    const auto y = at::_grouped_mm(x, w.transpose(1, 2), group_ends);
    CHECK(torch_double::counted_synchronisations().size() == (type == at::kFloat ? 1 : 0));
    CHECK(y.scalar_type() == type);
    for (const auto& [group, first, count] : {std::tuple{0, 0, 4}, {2, 4, 7}})
      CHECK(distance(y.narrow(0, first, count).cpu(), at::mm(wide(x).narrow(0, first, count), wide(w)[group].t())) <
            (type == at::kFloat ? 1e-5 : 4e-2));
    CHECK(at::isnan(y.narrow(0, 11, 2)).all().item<bool>());
  }
}

TEST_CASE("a grouped product along the inner dim has a matrix for each group, undefined for an empty one") {
  const auto a = to_device(varied({13, 16}, 1, at::kBFloat16)), b = to_device(varied({13, 24}, 2, at::kBFloat16));
  const auto y = at::_grouped_mm(a.t(), b, ends({4, 4, 13}));
  CHECK(y.sizes() == at::IntArrayRef({3, 16, 24}));
  for (const auto& [group, first, count] : {std::tuple{0, 0, 4}, {2, 4, 9}})
    CHECK(distance(y[group].cpu(), at::mm(wide(a).narrow(0, first, count).t(), wide(b).narrow(0, first, count))) <
          4e-2);
  CHECK(at::isnan(y[1]).all().item<bool>());
}

TEST_CASE("a grouped product along the inner dim in float32 is a loop, in which an empty group gives zeros") {
  const auto a = to_device(varied({13, 16}, 1, at::kFloat)), b = to_device(varied({13, 24}, 2, at::kFloat));
  const auto y = at::_grouped_mm(a.t(), b, ends({4, 4, 13}));
  CHECK(distance(y[2].cpu(), at::mm(wide(a).narrow(0, 4, 9).t(), wide(b).narrow(0, 4, 9))) < 1e-5);
  CHECK(y[1].eq(0).all().item<bool>());
}

TEST_CASE("groups begin at whole 16 bytes of bfloat16") {
  const auto a = to_device(varied({16, 24}, 1, at::kBFloat16)), b = to_device(varied({24, 32}, 2, at::kBFloat16));
  CHECK_NOTHROW(at::_grouped_mm(a, b, ends({8, 21})));
  CHECK_THROWS_WITH(at::_grouped_mm(a, b, ends({9, 24})), ContainsSubstring("group 0 has 9 elements"));
  const auto columns = to_device(varied({32, 24}, 3, at::kBFloat16)).t();
  CHECK_THROWS_WITH(at::_grouped_mm(a.t().contiguous().t(), columns, ends({8, 9, 24})),
                    ContainsSubstring("group 1 has 1 elements"));
  const auto w = to_device(varied({2, 16, 32}, 4, at::kBFloat16));
  CHECK_THROWS_WITH(at::_grouped_mm(to_device(varied({16, 24}, 5, at::kBFloat16)).t(), w, ends({4, 24})),
                    ContainsSubstring("group 0 has 4 elements"));
}

TEST_CASE("the result of a grouped product has rows of whole 16 bytes") {
  const auto x = to_device(varied({5, 8}, 1, at::kBFloat16)), w = to_device(varied({2, 3, 8}, 2, at::kBFloat16));
  const auto y = at::_grouped_mm(x, w.transpose(1, 2), ends({2, 5}));
  CHECK(y.sizes() == at::IntArrayRef({5, 3}));
  CHECK(y.strides() == at::IntArrayRef({8, 1}));
}

TEST_CASE("a grouped product is refused where CUDA refuses it") {
  const auto x = to_device(varied({5, 8}, 1, at::kBFloat16)), w = to_device(varied({2, 8, 16}, 2, at::kBFloat16));
  const auto narrow = to_device(varied({5, 7}, 1, at::kBFloat16)),
             odd = to_device(varied({2, 7, 16}, 2, at::kBFloat16));
  CHECK_THROWS_WITH(at::_grouped_mm(narrow, odd, ends({2, 5})), ContainsSubstring("strides should be multiple of 16"));
  CHECK_THROWS_WITH(at::_grouped_mm(x, to_device(varied({2, 8, 3}, 2, at::kBFloat16)), ends({2, 5})),
                    ContainsSubstring("strides should be multiple of 16"));
  const auto shifted = to_device(varied({5 * 8 + 1}, 1, at::kBFloat16)).narrow(0, 1, 40).view({5, 8});
  CHECK_THROWS_WITH(at::_grouped_mm(shifted, w, ends({2, 5})), ContainsSubstring("aligned to 16 bytes"));
  CHECK_THROWS_WITH(at::_grouped_mm(x, w, ends({2, 5}).to(at::kLong)), ContainsSubstring("int32"));
  CHECK_THROWS_WITH(at::_grouped_mm(x, w, ends({2, 5}), {}, at::kFloat), ContainsSubstring("output dtype must match"));
  CHECK_THROWS_WITH(at::_grouped_mm(x, w, ends({2, 5}).cpu()),
                    ContainsSubstring("Expected all tensors to be on the same device"));
  CHECK_THROWS_WITH(at::_grouped_mm(x, w, ends({2, 6})), ContainsSubstring("do not ascend to at most 5"));
  CHECK_THROWS_WITH(at::_grouped_mm(x.to(at::kDouble), w.to(at::kDouble), ends({2, 5})), ContainsSubstring("Float32"));
}

TEST_CASE("the fused norm follows its formula, with gradients") {
  constexpr double epsilon = 1e-3;
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 4e-2;
    auto x = varied({7, 3, 13}, 1, type), gain = varied({13}, 2, type);
    const auto d = varied({7, 3, 13}, 3, type);
    const auto wide_x = wide(x).clone().set_requires_grad(true), wide_gain = wide(gain).clone().set_requires_grad(true);
    const auto expected = norm_by_formula(wide_x, wide_gain, epsilon);
    expected.mul(d.to(at::kDouble)).sum().backward();
    const auto moved_x = to_device(x).set_requires_grad(true), moved_gain = to_device(gain).set_requires_grad(true);
    const auto [normed, inverse] = at::_fused_rms_norm(moved_x, {13}, moved_gain, epsilon);
    CHECK(normed.scalar_type() == type);
    CHECK(inverse.scalar_type() == (type == at::kDouble ? at::kDouble : at::kFloat));
    CHECK(inverse.sizes() == at::IntArrayRef({7, 3, 1}));
    CHECK(distance(normed.cpu(), expected) < tolerance);
    normed.mul(to_device(d)).sum().backward();
    CHECK(distance(moved_x.grad().cpu(), wide_x.grad()) < tolerance);
    CHECK(distance(moved_gain.grad().cpu(), wide_gain.grad()) < 4 * tolerance);
    CHECK(distance(at::rms_norm(moved_x, {13}, moved_gain, epsilon).cpu(), expected) < tolerance);
  }
}

TEST_CASE("the fused norm takes a gain of the input's type alone") {
  const auto x = to_device(varied({7, 13}, 1, at::kBFloat16)), gain = to_device(varied({13}, 1, at::kFloat));
  CHECK_THROWS_WITH(at::_fused_rms_norm(x, {13}, gain, 1e-3), ContainsSubstring("a weight of Float"));
}

TEST_CASE("the fused norm's gradient takes what its forward gave") {
  const auto x = to_device(varied({7, 13}, 1, at::kBFloat16)), gain = to_device(varied({13}, 1, at::kBFloat16));
  const auto inverse = std::get<1>(at::_fused_rms_norm(x, {13}, gain, 1e-3));
  CHECK_NOTHROW(at::_fused_rms_norm_backward(x, x, {13}, inverse, gain, {true, true}));
  CHECK_THROWS_WITH(at::_fused_rms_norm_backward(x.to(at::kFloat), x, {13}, inverse, gain, {true, true}),
                    ContainsSubstring("the gradient is not like the input"));
  CHECK_THROWS_WITH(at::_fused_rms_norm_backward(x, x, {13}, inverse.to(at::kBFloat16), gain, {true, true}),
                    ContainsSubstring("the root is not the forward's"));
}

TEST_CASE("deterministic algorithms want a workspace for cuBLAS, and refuse what has none") {
  const auto x = to_device(varied({5, 5}, 1, at::kFloat));
  struct Deterministic {
    Deterministic() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
    ~Deterministic() {
      at::globalContext().setDeterministicAlgorithms(false, false);
      unsetenv("CUBLAS_WORKSPACE_CONFIG");
    }
  } const deterministic;
  CHECK_THROWS_WITH(at::mm(x, x), ContainsSubstring("CUBLAS_WORKSPACE_CONFIG"));
  CHECK_THROWS_WITH(at::mm(x, x, at::kFloat), ContainsSubstring("CUBLAS_WORKSPACE_CONFIG"));
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
  CHECK_NOTHROW(at::mm(x, x));
  CHECK_THROWS_WITH(x.cumsum(0), ContainsSubstring("does not have a deterministic implementation"));
  CHECK_NOTHROW(x.to(at::kLong).cumsum(0));
  CHECK_NOTHROW(x.sum(0).add_(x.index_add(0, ends({0}).to(at::kLong), x.narrow(0, 0, 1)).mean()));
}
