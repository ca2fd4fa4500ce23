// If this failed, operations on the stand-in for a GPU would give other results than LibTorch on the CPU.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "both_places.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using test::check_same;
using test::check_same_gradients;
using test::integers;
using test::Tensors;
using test::varied;

namespace {

at::Tensor permutation(std::int64_t n) { return at::arange(n, at::kLong).mul(3).add(1).remainder(n); }

}  // namespace

TEST_CASE("views and in-place writes reach the same bytes") {
  check_same(
      [](const Tensors& t) {
        auto x = t[0];
        x.t().narrow(0, 1, 3).mul_(2);
        x.select(1, 0).copy_(x.select(1, 4));
        x.as_strided({3}, {8}, 1).fill_(5);
        x.view({5, 7}).transpose(0, 1).diagonal().zero_();
        return Tensors{
            x.view(-1).unfold(0, 4, 3),         x.expand({2, 7, 5}), x.t().reshape(-1), x.permute({1, 0}).contiguous(),
            x.unsqueeze(0).squeeze(0).detach(), x.chunk(3)[1],       x.view(at::kInt)};
      },
      {varied({7, 5}, 1, at::kFloat)});
}

TEST_CASE("tensors are made on the device") {
  check_same(
      [](const Tensors& t) {
        const auto options = t[0].options();
        return Tensors{
            at::zeros({3, 5}, options),       at::full({3}, 7, options), at::ones({2}, options.dtype(at::kLong)),
            at::arange(7, options),           at::zeros_like(t[0]),      at::full_like(t[0], 0.5),
            at::empty_like(t[0]).copy_(t[0]), t[0].new_zeros({3}),       at::full({}, 3, options)};
      },
      {varied({7, 5}, 1)});
}

TEST_CASE("products, sums and norms") {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    INFO("type " << type);
    const auto a = varied({7, 5}, 1, type), b = varied({5, 11}, 2, type), c = varied({7, 11}, 3, type);
    check_same_gradients([](const Tensors& t) { return at::mm(t[0], t[1]); }, {a, b});
    check_same_gradients([](const Tensors& t) { return at::addmm(t[0], t[1], t[2], 0.5, 2); }, {c, a, b});
    check_same_gradients([](const Tensors& t) { return at::bmm(t[0].unsqueeze(0), t[1].unsqueeze(0)); }, {a, b});
    check_same_gradients([](const Tensors& t) { return at::matmul(t[0].view({1, 7, 5}), t[1]); }, {a, b});
    check_same([](const Tensors& t) { return Tensors{t[0].addmm_(t[1], t[2])}; }, {c, a, b});
    check_same(
        [](const Tensors& t) {
          auto out = t[0].t();
          at::mm_out(out, t[1], t[2]);
          return Tensors{};
        },
        {c.t().contiguous(), a, b});
    check_same_gradients([](const Tensors& t) { return t[0].sum(1).mul(t[0].mean(0, true).sum()); }, {a});
    check_same(
        [](const Tensors& t) {
          return Tensors{at::linalg_vector_norm(t[0], 2, {}, false, at::kDouble),
                         t[0].max(),
                         t[0].abs().amax(1),
                         at::linalg_vector_norm(t[0], std::numeric_limits<double>::infinity()),
                         t[0].argmax(1),
                         t[0].sum(at::kDouble)};
        },
        {a.to(type == at::kDouble ? at::kDouble : at::kFloat)});
  }
}

TEST_CASE("elementwise operations and softmax, with gradients") {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    INFO("type " << type);
    const auto a = varied({7, 5}, 1, type), b = varied({7, 5}, 2, type);
    check_same_gradients([](const Tensors& t) { return at::silu(t[0]).mul(t[1]).sub(t[0]).div(t[1].add(3)); }, {a, b});
    check_same([](const Tensors& t) { return Tensors{at::silu_backward(t[0], t[1])}; }, {a, b});
    check_same_gradients([](const Tensors& t) { return at::softmax(t[0], 1); }, {a});
    check_same_gradients([](const Tensors& t) { return at::softmax(t[0], 1, at::kFloat); }, {a.to(at::kFloat)});
    check_same_gradients([](const Tensors& t) { return at::log_softmax(t[0], 1); }, {a});
    check_same_gradients([](const Tensors& t) { return at::logsumexp(t[0], {1}); }, {a});
    check_same_gradients([](const Tensors& t) { return at::rsqrt(t[0].square().add(0.1)).exp().neg(); }, {a});
    check_same_gradients([](const Tensors& t) { return at::where(t[0].gt(0), t[0], t[1]).clamp(-0.5, 0.5); }, {a, b});
    check_same_gradients([](const Tensors& t) { return t[0].masked_fill(t[1].gt(0), 2).to(at::kDouble); }, {a, b});
    check_same(
        [](const Tensors& t) {
          return Tensors{t[0].clone().lerp_(t[1], 0.25), t[0].clone().addcmul_(t[0], t[1], 3)};
        },
        {a, b});
    check_same_gradients(
        [](const Tensors& t) {
          return at::cat({t[0], at::stack({t[1], t[0]}).view({-1, 5})});
        },
        {a, b});
  }
}

TEST_CASE("rows by index, forward and backward") {
  const auto rows = varied({7, 5}, 1, at::kFloat), few = varied({4, 5}, 2, at::kFloat);
  const auto index = integers({6, 0, 3, 0}), distinct = integers({6, 0, 3, 1});
  check_same_gradients([](const Tensors& t) { return at::index_select(t[0], 0, t[1]); }, {rows, index});
  check_same_gradients([](const Tensors& t) { return t[0].index({t[1]}); }, {rows, index});
  check_same_gradients([](const Tensors& t) { return at::embedding(t[0], t[1]); }, {rows, index});
  check_same_gradients([](const Tensors& t) { return t[0].index_add(0, t[1], t[2]); }, {rows, index, few});
  check_same_gradients([](const Tensors& t) { return t[0].index_copy(0, t[1], t[2]); }, {rows, distinct, few});
  check_same_gradients(
      [](const Tensors& t) {
        return at::gather(t[0], 0, t[1].view({4, 1}).expand({4, 5}));
      },
      {rows, index});
  check_same(
      [](const Tensors& t) {
        auto out = at::empty({4, 5}, t[0].options());
        at::index_select_out(out, t[0], 0, t[1]);
        return Tensors{out,
                       t[0].index_add_(0, t[1], t[2]),
                       t[0].index_copy_(0, t[3], t[2]),
                       t[0].index_put_(c10::List<std::optional<at::Tensor>>({std::optional<at::Tensor>(t[3])}), t[2]),
                       t[0].index_fill_(0, t[3], 3),
                       t[0].scatter_(0, t[1].view({4, 1}), 7),
                       t[0].scatter_(1, t[1].view({4, 1}).remainder(5), t[2]),
                       t[0].scatter_add_(1, t[1].view({4, 1}).remainder(5), t[2])};
      },
      {rows, index, few, distinct});
}

TEST_CASE("orders, counts and positions") {
  const auto keys = integers({5, 2, 5, 0, 7, 2, 2}), floats = varied({7, 5}, 1, at::kFloat);
  check_same(
      [](const Tensors& t) {
        const auto [sorted, order] = at::sort(t[0], /*stable=*/true, 0, /*descending=*/false);
        const auto [top, place] = at::topk(t[1], 3, 1);
        const auto [top_keys, key_place] = at::topk(t[0], 1, 0);
        return Tensors{sorted,
                       order,
                       top,
                       place,
                       top_keys,
                       key_place,
                       at::argsort(t[0], /*stable=*/true, 0, true),
                       at::searchsorted(sorted, t[0]),
                       at::searchsorted(sorted, at::arange(8, t[0].options()), false, true),
                       at::cumsum(t[0], 0),
                       at::cumsum(t[0], 0, at::kInt),
                       at::repeat_interleave(t[0], 23),
                       at::repeat_interleave(t[0]),
                       t[0].remainder(3),
                       at::zeros({8}, t[0].options()).scatter_add_(0, t[0], at::ones({7}, t[0].options()))};
      },
      {keys, floats});
  check_same_gradients([](const Tensors& t) { return std::get<0>(at::topk(t[0], 2, 1)); }, {floats});
  check_same_gradients([](const Tensors& t) { return std::get<0>(at::sort(t[0], 1)); }, {floats});
  check_same([](const Tensors& t) { return Tensors{t[0].index({t[1]}).cumsum(0)}; }, {floats, permutation(7)});
}

TEST_CASE("fused optimizer steps and lists of tensors") {
  const auto type = at::kFloat;
  const Tensors state{varied({7}, 1, type),       varied({3, 5}, 2, type),       varied({7}, 3, type),
                      varied({3, 5}, 4, type),    varied({7}, 5, type),          varied({3, 5}, 6, type),
                      varied({7}, 7, type).abs(), varied({3, 5}, 8, type).abs(), at::full({}, 3, type)};
  check_same(
      [](const Tensors& t) {
        const Tensors steps{t[8], t[8]};
        at::_fused_adamw_({t[0], t[1]}, {t[2], t[3]}, {t[4], t[5]}, {t[6], t[7]}, {}, steps, 0.01, 0.9, 0.99, 0.1, 1e-8,
                          false, false);
        return Tensors{};
      },
      state);
  check_same(
      [](const Tensors& t) {
        at::_fused_sgd_({t[0], t[1]}, {t[2], t[3]}, {t[4], t[5]}, 0.1, 0.9, 0.01, 0, false, false, false);
        return Tensors{};
      },
      state);
  check_same(
      [](const Tensors& t) {
        at::_foreach_mul_({t[0], t[1]}, 0.5);
        at::_foreach_add_({t[0], t[1]}, {t[2], t[3]}, 2);
        at::_foreach_mul_({t[2], t[3]}, t[8]);
        at::_foreach_lerp_({t[4], t[5]}, {t[2], t[3]}, 0.1);
        return at::_foreach_norm({t[0], t[1]}, 2);
      },
      state);
}

TEST_CASE("the steps of fused AdamW are float32 on the device, as its CUDA kernel reads them") {
  const auto moved = test::on_device({varied({7}, 1, at::kFloat), varied({7}, 2, at::kFloat).abs()});
  for (const auto& step : {at::full({}, 3, at::kFloat), at::full({}, 3, moved[0].options().dtype(at::kLong))})
    CHECK_THROWS_WITH(at::_fused_adamw_({moved[0]}, {moved[0]}, {moved[0]}, {moved[1]}, {}, {step}, 0.01, 0.9, 0.99,
                                        0.1, 1e-8, false, false),
                      ContainsSubstring("state_steps are not float32 on the device"));
}
