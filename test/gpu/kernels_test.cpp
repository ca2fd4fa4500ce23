// If this failed, our own kernels would compute other values than the CPU. Two programs: on the stand-in for a GPU each
// lane's code runs on the CPU; the one labelled gpu launches the kernels themselves.
#include <ATen/ops/add.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>

#include "device/tensor_device.h"
#include "moe/activation.h"
#include "moe/slot_sum_gpu.h"
#include "ops/rows.h"
#include "support/gradient_check.h"

namespace tessera::test {
namespace {

at::Tensor on_gpu(const at::Tensor& tensor) { return tensor.to(device::tensor_device(device::Place::cuda)); }

// Odd and coprime; multiples of a vector; more than the lanes of a row take at once.
const std::vector<std::int64_t> widths{1, 7, 8, 61, 64, 257, 264, 520};

// ---- Sums of slots ----

struct SumCase {
  std::int64_t rows;
  at::Tensor row;  // of each slot
};

std::vector<SumCase> sum_cases() {
  return {{5, integers({4, 0, 1, 0, 1, 2, 4, 0})},  // row 3 has none
          {7, at::full({31}, 3, at::TensorOptions(at::kLong))},
          {3, integers({})},
          {0, integers({})},
          {1, integers({0})},
          {13, at::arange(13 * 5, at::TensorOptions(at::kLong)).mul(8).remainder(13)},
          {1201, at::arange(3001, at::TensorOptions(at::kLong)).mul(7).remainder(1201)}};
}

struct SumTypes {
  at::ScalarType values, result;
};

// In float32 by the CPU's add_rows, then rounded.
at::Tensor summed_on_cpu(const SumCase& c, const at::Tensor& values, const at::Tensor& addend, at::ScalarType type) {
  const auto sums = addend.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  ops::add_rows(sums, c.row, values);
  return sums.to(type);
}

void check_sums(const SumCase& c, std::int64_t columns, const SumTypes& types) {
  CAPTURE(c.rows, c.row.numel(), columns, types.values, types.result);
  const auto values = varied({c.row.numel(), columns}, 1, types.values).mul(3),
             second = varied({c.row.numel(), columns}, 2, types.values),
             addend = varied({c.rows, columns}, 3, types.result);
  const auto by_row = moe::gpu::slots_by_row(on_gpu(c.row), c.rows);
  const auto none = at::zeros({c.rows, columns}, at::TensorOptions(at::kFloat));
  const auto sum = moe::gpu::sum_slots(on_gpu(values), by_row, types.result);
  REQUIRE(sum.scalar_type() == types.result);
  CHECK(at::equal(sum.cpu(), summed_on_cpu(c, values, none, types.result)));
  const auto both = values.to(at::kFloat).add(second);
  CHECK(at::equal(moe::gpu::sum_slots(on_gpu(values), by_row, types.result, on_gpu(second), on_gpu(addend)).cpu(),
                  summed_on_cpu(c, both, addend, types.result)));
}

TEST_CASE("sums of slots have the bits of the CPU's: in slot order in float32, rounded once") {
  for (const auto& types :
       std::vector<SumTypes>{{at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}, {at::kFloat, at::kBFloat16}}) {
    for (const auto& c : sum_cases())
      for (const auto columns : widths) check_sums(c, columns, types);
  }
}

TEST_CASE("sums of rows that do not start at a vector") {
  const auto row = integers({1, 0, 1}), memory = varied({3 * 8 + 1}, 5, at::kBFloat16);
  const auto values = memory.narrow(0, 1, 24).view({3, 8});
  const auto found = moe::gpu::sum_slots(on_gpu(memory).narrow(0, 1, 24).view({3, 8}),
                                         moe::gpu::slots_by_row(on_gpu(row), 2), at::kBFloat16);
  CHECK(at::equal(found.cpu(), at::cat({values.narrow(0, 1, 1),
                                        at::add(values[0].to(at::kFloat), values[2]).to(at::kBFloat16).unsqueeze(0)})));
}

TEST_CASE("a row's slots ascend, and a row without slots has none") {
  const auto found = moe::gpu::slots_by_row(on_gpu(integers({4, 0, 1, 0, 1, 2, 4, 0})), 6);
  CHECK(at::equal(found.slot.cpu(), integers({1, 3, 7, 2, 4, 5, 0, 6})));
  CHECK(at::equal(found.first.cpu(), integers({0, 3, 5, 6, 6, 8, 8})));
}

// ---- SwiGLU times the slot weight ----

// Every element is the exact one of float64, rounded once to `type` (in float32 after some arithmetic).
bool is_rounded_once(const at::Tensor& found, const at::Tensor& exact, at::ScalarType type) {
  const int bits = type == at::kBFloat16 ? 8 : 24;
  const auto got = found.cpu().to(at::kDouble).contiguous(), expected = exact.contiguous();
  if (got.sizes() != expected.sizes() || found.scalar_type() != type) return false;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double x = expected.const_data_ptr<double>()[i], y = got.const_data_ptr<double>()[i];
    int exponent = 0;
    std::frexp(x, &exponent);
    const double half_step = std::ldexp(0.5, exponent - bits);
    if (!(std::abs(x - y) <= half_step + 16 * std::ldexp(1.0, exponent - 24))) return false;
  }
  return true;
}

struct SwigluCase {
  at::Tensor gate, up, weight, d;
  SwigluCase(std::int64_t slots, std::int64_t columns, at::ScalarType type)
      : gate(varied({slots, columns}, 1, type).mul(9)),
        up(varied({slots, columns}, 2, type).mul(2)),
        weight(varied({slots}, 3, at::kFloat)),
        d(varied({slots, columns}, 4, type)) {}
};

void check_swiglu(const SwigluCase& c, at::ScalarType type) {
  CAPTURE(c.gate.sizes(), type);
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const auto g = wide(c.gate), u = wide(c.up), d = wide(c.d), w = wide(c.weight).unsqueeze(1);
  const auto s = at::sigmoid(g), silu = g.mul(s);

  const auto gate = on_gpu(c.gate), up = on_gpu(c.up), weight = on_gpu(c.weight), activation = at::empty_like(gate);
  moe::activate(gate, up, weight, activation);
  CHECK(is_rounded_once(activation, silu.mul(u).mul(w), type));

  const auto memory = on_gpu(c.d);  // of d, then of the activation
  const moe::ActivationGradient result{at::empty_like(gate), at::empty_like(gate), memory, at::empty_like(weight)};
  moe::activate_back(gate, up, weight, memory, result);
  CHECK(at::equal(result.activation.cpu(), activation.cpu()));
  CHECK(is_rounded_once(result.d_up, d.mul(w).mul(silu), type));
  // 1 + g (1 - s) cancels near -1.28: there the error of float32 is one of its parts.
  const auto slope = s.mul(g.mul(s.neg().add(1)).add(1));
  const auto difference = wide(result.d_gate.cpu()).sub(d.mul(w).mul(u).mul(slope)).abs();
  const double rounding = type == at::kBFloat16 ? 0x1p-9 : 0x1p-22;
  CHECK(difference.le(d.mul(w).mul(u).mul(slope).abs().mul(2 * rounding).add(1e-6)).all().item<bool>());
  // At most 17 terms a lane, five sums of lanes, and some arithmetic for each term.
  const auto terms = d.mul(silu).mul(u);
  CHECK(
      wide(result.d_weight.cpu()).sub(terms.sum(1)).abs().le(terms.abs().sum(1).mul(32 * 0x1p-24)).all().item<bool>());
}

TEST_CASE("SwiGLU times the slot weight, and its gradients, are the exact ones rounded once") {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t slots : {0, 1, 37})
      for (const auto columns : widths) check_swiglu({slots, columns, type}, type);
}

TEST_CASE("SwiGLU is near the CPU's to the last bits of float32, far values and NaN too") {
  SwigluCase c(3, 29, at::kFloat);
  const auto gate = c.gate.select(0, 1);
  gate[0].fill_(-200);
  gate[1].fill_(200);
  gate[2].fill_(std::numeric_limits<double>::quiet_NaN());
  gate[3].fill_(0);
  const auto expected = at::empty_like(c.gate), found = on_gpu(expected);
  moe::activate(c.gate, c.up, c.weight, expected);
  moe::activate(on_gpu(c.gate), on_gpu(c.up), on_gpu(c.weight), found);
  CHECK(at::allclose(found.cpu(), expected, 2e-6, 1e-30, /*equal_nan=*/true));
  CHECK(std::isnan(found.cpu()[1][2].item<double>()));
}

// ---- Both, in the experts ----

TEST_CASE("experts have the same bits every time") {
  const auto run = [] {
    auto rows = varied({5, 24}, 1, at::kFloat), weight = varied({8}, 2, at::kFloat);
    const auto by_row = moe::gpu::slots_by_row(on_gpu(integers({4, 0, 1, 0, 1, 2, 4, 0})), 5);
    const SwigluCase c(8, 24, at::kFloat);
    const auto gate = on_gpu(c.gate), d = on_gpu(c.d);
    const moe::ActivationGradient result{at::empty_like(gate), at::empty_like(gate), d, on_gpu(weight)};
    moe::activate_back(gate, on_gpu(c.up), on_gpu(c.weight), d, result);
    return at::cat({moe::gpu::sum_slots(result.activation, by_row, at::kFloat).cpu().flatten(), result.d_weight.cpu()});
  };
  const auto first = run();
  for (int k = 0; k < 5; ++k) CHECK(at::equal(run(), first));
}

}  // namespace
}  // namespace tessera::test
