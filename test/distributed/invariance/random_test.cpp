// If this failed, a run would depend on how many ranks share it, for a combination of layout, model and data that
// invariance_test.cpp does not list; these are drawn by chance. TESSERA_RANDOM_SEED is the seed (default: today's
// date), TESSERA_RANDOM_CASES the number of cases, TESSERA_RANDOM_CASE the only case to try.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>

#include "comparison.h"
#include "random_case.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

constexpr std::int64_t steps = 3;

std::optional<std::int64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional<std::int64_t>(std::atoll(text));
}

// The seed: the environment's, or today's date as 20240611. The same on every rank.
std::int64_t seed_of_run() {
  if (const auto given = number_in("TESSERA_RANDOM_SEED")) return *given;
  const std::time_t now = std::time(nullptr);
  const std::tm* date = std::gmtime(&now);
  auto seed = (date->tm_year + 1900) * std::int64_t{10000} + (date->tm_mon + 1) * 100 + date->tm_mday;
  world().communicator()->all_reduce(&seed, 1, comm::ElementType::int64, comm::ReduceOperation::max, nullptr)->wait();
  return seed;
}

std::string command(std::int64_t seed, std::int64_t number) {
  return fmt::format(
      "TESSERA_RANDOM_SEED={} TESSERA_RANDOM_CASE={} mpirun --oversubscribe --bind-to none -n {} "
      "build/bin/test_distributed_random_layouts",
      seed, number, world().size());
}

// Narrow formats round differently, so only larger errors are seen, and in the first step only.
bool agrees(const Deviations& d, Format format) {
  switch (format) {
    case Format::float64: return d.largest() <= 1e-10;
    case Format::float32: return !d.same_load || (d.losses <= 1e-4 && d.norms <= 1e-3 && d.first_gradients <= 1e-2);
    case Format::bfloat16: return d.losses <= 0.1 && d.norms <= 0.5;
  }
  return false;
}

void check_case(std::int64_t seed, std::int64_t number) {
  const auto c = random_case(static_cast<std::uint64_t>(seed * 10000 + number), world().size());
  INFO("to repeat it: " << command(seed, number));
  INFO(c.config << "\n" << fmt::format("{}", fmt::join(c.words, " ")));
  const SmallRun files;
  auto reference = train_alone(c.settings(files, c.reference), c.format == Format::float64 ? steps : 1);
  reference.least_scale = 1e-5;
  const auto deviations = compare(c.settings(files, c.words), world().communicator(), reference);
  INFO("losses " << deviations.losses << ", norms " << deviations.norms << ", gradients " << deviations.gradients
                 << ", in the first step " << deviations.first_gradients << " (" << deviations.largest_gradient
                 << "), counts " << deviations.same_load);
  CHECK_ON_ALL(agrees(deviations, c.format));
  const bool was_made = reference.results.front().outcome == executor::Outcome::done;
  if (c.format == Format::float64) CHECK(deviations.sent == (was_made ? deviations.planned : Bytes{}));
}

TEST_CASE("models, data and layouts drawn by chance give the losses, norms and gradients of one rank") {
  const auto seed = seed_of_run();
  const auto only = number_in("TESSERA_RANDOM_CASE");
  const auto count = number_in("TESSERA_RANDOM_CASES").value_or(5);
  if (world().rank() == 0) std::cout << "TESSERA_RANDOM_SEED=" << seed << "\n";
  for (auto number = only.value_or(0); number < (only ? *only + 1 : count); ++number) check_case(seed, number);
}

}  // namespace
}  // namespace tessera::test
