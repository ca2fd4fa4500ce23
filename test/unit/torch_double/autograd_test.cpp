// If this failed, backward on the stand-in for a GPU would run differently than on a GPU.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "both_places.h"

using namespace tessera;
namespace torch_double = test::torch_double;
using test::check_same_gradients;
using test::distance;
using test::Tensors;
using test::varied;
using torch_double::to_device;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::thread::id backward_thread;

// x * x with a gradient of its own, which is added into `buffer` too.
struct Square : Function<Square> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& buffer) {
    context->save_for_backward({x, buffer});
    return x.mul(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    backward_thread = std::this_thread::get_id();
    const auto saved = context->get_saved_variables();
    const auto d = gradients[0].mul(saved[0]).mul(2);
    at::Tensor buffer = saved[1];
    buffer.add_(d);
    return {d, {}};
  }
};

// [batch, heads, tokens, dim], by the formula and in float64.
at::Tensor attention_by_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto group = q.size(1) / k.size(1);
  const auto keys = at::repeat_interleave(k, group, 1), values = at::repeat_interleave(v, group, 1);
  auto scores = at::matmul(q, keys.transpose(2, 3)).div(std::sqrt(static_cast<double>(q.size(3))));
  const auto later = at::ones({q.size(2), q.size(2)}, at::kBool).triu(1);
  scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), values);
}

}  // namespace

TEST_CASE("a Function of ours runs backward on the device's thread and writes into a buffer there") {
  const auto x = to_device(varied({3, 5}, 1)).set_requires_grad(true);
  const auto buffer = at::zeros_like(x);
  Square::apply(x, buffer).mul(3).sum().backward();
  CHECK(distance(x.grad().cpu(), x.detach().cpu().mul(6)) == 0);
  CHECK(distance(buffer.cpu(), x.grad().cpu()) == 0);
  CHECK(backward_thread != std::this_thread::get_id());
}

TEST_CASE("the engine runs given roots with given gradients, twice, without a wait of the host") {
  const auto x = to_device(varied({3, 5}, 1)).set_requires_grad(true);
  const auto y = at::mm(x, x.t());
  const auto d = to_device(varied({3, 3}, 2));
  torch_double::reset_synchronisations();
  const auto execute = [&] {
    torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(y)}, {d},
                                                          /*keep_graph=*/true, /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  };
  execute();
  const auto once = x.grad().clone();
  execute();
  CHECK(torch_double::counted_synchronisations().empty());
  const auto cpu_x = x.detach().cpu(), cpu_d = d.cpu();
  CHECK(distance(once.cpu(), at::mm(cpu_d.add(cpu_d.t()), cpu_x)) < 1e-14);
  CHECK(distance(x.grad().cpu(), once.cpu().mul(2)) == 0);
}

TEST_CASE("gradients cross from the device to the host and back") {
  const auto x = varied({3, 5}, 1).set_requires_grad(true);
  to_device(x).mul(2).cpu().mul(3).sum().backward();
  CHECK(x.grad().is_cpu());
  CHECK(x.grad().equal(at::full({3, 5}, 6, at::kDouble)));
}

TEST_CASE("attention is causal, groups key heads, and has gradients, in float32 and bfloat16") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    INFO("type " << type);
    const double tolerance = type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 6e-2;
    Tensors moved, wide;
    for (const auto& value :
         {varied({2, 6, 7, 8}, 1, type), varied({2, 3, 7, 8}, 2, type), varied({2, 3, 7, 8}, 3, type)}) {
      moved.push_back(to_device(value).set_requires_grad(true));
      wide.push_back(value.to(at::kDouble).detach().clone().set_requires_grad(true));
    }
    torch_double::reset_synchronisations();
    const auto result = at::scaled_dot_product_attention(moved[0], moved[1], moved[2], {}, 0, /*is_causal=*/true, {},
                                                         /*enable_gqa=*/true);
    CHECK(result.scalar_type() == type);
    const auto expected = attention_by_formula(wide[0], wide[1], wide[2]);
    result.sum().backward();
    CHECK(torch_double::counted_synchronisations().empty());
    expected.sum().backward();
    CHECK(distance(result.cpu(), expected) < tolerance);
    for (std::size_t i = 0; i < 3; ++i) CHECK(distance(moved[i].grad().cpu(), wide[i].grad()) < tolerance);
  }
}

TEST_CASE("many threads compute at once") {
  const auto x = to_device(varied({31, 17}, 1));
  const auto expected = at::mm(x, x.t()).cpu();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const at::NoGradGuard no_graph;
      for (int k = 0; k < 50; ++k) right += at::mm(x, x.t()).cpu().equal(expected) ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  CHECK(right == 200);
}
