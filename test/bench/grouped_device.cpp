// Grouped products in bfloat16 on a GPU (or, in small, on the CPU) against one dense product of equal work, for
// scripts/device_check.sh; prints one JSON object.
//   bench_grouped [--device cuda|cpu] [--groups N] [--rows N] [--inner N] [--outer N] [--repeats N]
// The sizes are those of gate and up in Qwen3-30B-A3B, unless told otherwise: 128 experts, 8 chosen by each of 16384
// tokens. Seconds are medians.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/grouped_counts.h"
#include "bench/measure.h"
#include "device/gpu.h"
#include "device/stream.h"
#include "device/tensor_device.h"
#include "ops/grouped_rows.h"

namespace tessera::bench {
namespace {

using Body = std::function<void()>;
using device::Place;

constexpr int warm_up = 3;

struct Sizes {
  Place place = Place::cuda;
  std::int64_t groups = 128, rows = 131072, inner = 2048, outer = 768, repeats = 20;
};

std::int64_t positive(const std::string& name, const std::string& text) {
  std::size_t read = 0;
  std::int64_t value = 0;
  try {
    value = std::stoll(text, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  base::require(read > 0 && read == text.size() && value > 0, "{} = '{}': give a whole number above 0", name, text);
  return value;
}

Sizes read_sizes(int argc, char** argv) {
  Sizes sizes;
  const std::map<std::string, std::int64_t*> numbers{{"--groups", &sizes.groups},
                                                     {"--rows", &sizes.rows},
                                                     {"--inner", &sizes.inner},
                                                     {"--outer", &sizes.outer},
                                                     {"--repeats", &sizes.repeats}};
  for (int k = 1; k < argc; k += 2) {
    const std::string name = argv[k];
    base::require(k + 1 < argc, "{} needs a value", name);
    const std::string value = argv[k + 1];
    if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second = positive(name, value);
      continue;
    }
    base::require(name == "--device" && (value == "cpu" || value == "cuda"),
                  "'{} {}': it takes --device cuda or cpu, --groups, --rows, --inner, --outer and --repeats", name,
                  value);
    sizes.place = value == "cpu" ? Place::cpu : Place::cuda;
  }
  base::require(sizes.groups >= 6, "--groups = {}: give 6 or more", sizes.groups);
  return sizes;
}

std::string take(Place place) {
  if (place == Place::cpu) return "CPU";
  const auto gpus = device::find_gpus();
  base::require(gpus.count > 0, "--device cuda, but {}; {}, or use --device cpu", gpus.missing, gpus.way_out);
  device::use_gpu(0);
  return device::describe_gpu(0);
}

// As the GPU measures: all calls are given to it before the first is asked for.
double gpu_seconds(const Body& body, std::int64_t repeats) {
  const auto stream = device::Stream::compute();
  std::vector<device::Event> points{stream.record()};
  for (std::int64_t k = 0; k < repeats; ++k) {
    body();
    points.push_back(stream.record());
  }
  std::vector<double> times;
  for (std::size_t k = 1; k < points.size(); ++k) times.push_back(points[k].seconds_since(points[k - 1]));
  return median(std::move(times));
}

double cpu_seconds(const Body& body, std::int64_t repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (std::int64_t k = 0; k < repeats; ++k) {
    const auto began = Clock::now();
    body();
    times.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  return median(std::move(times));
}

double seconds_of(const Body& body, const Sizes& sizes) {
  for (int k = 0; k < warm_up; ++k) body();
  return sizes.place == Place::cuda ? gpu_seconds(body, sizes.repeats) : cpu_seconds(body, sizes.repeats);
}

// Operands and results of the three products of a forward and a backward pass.
struct Operands {
  explicit Operands(const Sizes& s) {
    const at::TensorOptions options(device::tensor_device(s.place));
    const auto narrow = options.dtype(at::kBFloat16);
    rows = at::randn({s.rows, s.inner}, options).to(at::kBFloat16);
    d = at::randn({s.rows, s.outer}, options).to(at::kBFloat16);
    weight = at::randn({s.groups, s.outer, s.inner}, options).mul_(0.02).to(at::kBFloat16);
    result = at::empty({s.rows, s.outer}, narrow);
    gradient = at::zeros({s.groups, s.outer, s.inner}, options);
    dense_d_rows = at::empty({s.rows, s.inner}, narrow);
    dense_gradient = at::empty({s.outer, s.inner}, narrow);
  }
  at::Tensor rows, d, weight, result, gradient, dense_d_rows, dense_gradient;
};

std::string times_of(const std::vector<Body>& products, const Sizes& sizes) {
  static constexpr const char* names[] = {"forward", "to_rows", "to_weights"};
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < products.size(); ++k)
    parts.push_back(fmt::format("\"{}\": {:.6g}", names[k], seconds_of(products[k], sizes)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::vector<Body> dense_products(Operands& o) {
  const auto matrix = o.weight.select(0, 0);
  return {[&o, matrix] { at::mm_out(o.result, o.rows, matrix.t()); },
          [&o, matrix] { at::mm_out(o.dense_d_rows, o.d, matrix); },
          [&o] { at::mm_out(o.dense_gradient, o.d.t(), o.rows); }};
}

std::vector<Body> grouped_products(const Operands& o, const at::Tensor& counts, ops::GroupedPath path) {
  return {[&o, counts, path] { static_cast<void>(ops::grouped_product(o.rows, counts, o.weight, path)); },
          [&o, counts, path] { static_cast<void>(ops::grouped_multiply_back(o.d, counts, o.weight, path)); },
          [&o, counts, path] { ops::add_grouped_outer_products(o.gradient, o.d, o.rows, counts, path); }};
}

at::Tensor counts_on(at::Device device, const std::vector<std::int64_t>& values) {
  auto counts = at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions(at::kLong));
  std::copy(values.begin(), values.end(), counts.mutable_data_ptr<std::int64_t>());
  return counts.to(device);
}

void run(const Sizes& sizes) {
  const auto name = take(sizes.place);
  Operands operands(sizes);
  const auto device = operands.rows.device();
  const auto path = ops::choose_grouped_path(at::kBFloat16, device.type(),
                                             {.groups = sizes.groups, .inner = sizes.inner, .outer = sizes.outer});
  fmt::print("{{\"device\": \"{}\", \"type\": \"bfloat16\", \"path\": \"{}\", \"groups\": {}, \"rows\": {},\n", name,
             ops::name(path), sizes.groups, sizes.rows);
  fmt::print(" \"inner\": {}, \"outer\": {}, \"repeats\": {}, \"dense_s\": {},\n \"cases\": [", sizes.inner,
             sizes.outer, sizes.repeats, times_of(dense_products(operands), sizes));
  const char* separator = "";
  for (const auto& grouped : grouped_cases(sizes.groups, sizes.rows)) {
    const auto counts = counts_on(device, grouped.counts);
    fmt::print("{}\n  {{\"name\": \"{}\", \"counts\": [{}], \"ours_s\": {}}}", separator, grouped.name,
               fmt::join(grouped.counts, ","), times_of(grouped_products(operands, counts, path), sizes));
    separator = ",";
  }
  fmt::print("]}}\n");
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    tessera::bench::run(tessera::bench::read_sizes(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_grouped: {}\n", error.what());
    return 2;
  }
  return 0;
}
