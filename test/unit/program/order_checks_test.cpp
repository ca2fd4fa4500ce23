// If this failed, a program that reads freed memory, or lacks a reduction, would be accepted.
#include "program/order_checks.h"

#include <fmt/format.h>

#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

using config::FsdpMode;

std::vector<BuilderOptions> every_option() {
  std::vector<BuilderOptions> all;
  for (const auto kind : {StepKind::train, StepKind::evaluate})
    for (const auto mode : {FsdpMode::fsdp2, FsdpMode::zero2, FsdpMode::zero1})
      for (const bool reshard : {true, false})
        for (const std::int32_t depth : {0, 1, 3})
          for (const auto recompute : {Recompute::none, Recompute::full, Recompute::experts})
            for (const auto fusion : {Fusion::neighbours, Fusion::none})
              for (const std::int32_t micro_steps : {1, 2})
                all.push_back({.kind = kind,
                               .micro_steps = micro_steps,
                               .mode = mode,
                               .reshard_after_forward = reshard,
                               .prefetch_depth = depth,
                               .recompute = recompute,
                               .fusion = fusion});
  return all;
}

std::string text_of(const Program& program) {
  std::string text;
  for (const auto& line : describe(program)) text += line + "\n";
  return text;
}

TEST_CASE("every program that the builder makes is sound") {
  for (const bool tied : {false, true}) {
    for (const auto balance : {config::BalanceLoss::pooled, config::BalanceLoss::sequence}) {
      const test::SmallModel model(true, tied, balance);
      for (const auto& options : every_option()) {
        const auto program = model.build(options);
        INFO(text_of(program));
        CHECK(check_order(program) == std::vector<std::string>{});
      }
    }
  }
}

// The resource or the operation that the removed instruction stood for.
std::vector<std::string> faults_without(const Program& program, const std::string& line) {
  auto shorter = program;
  const auto lines = describe(program);
  const auto found = std::find(lines.begin(), lines.end(), line);
  REQUIRE(found != lines.end());
  shorter.instructions.erase(shorter.instructions.begin() + (found - lines.begin()));
  return check_order(shorter);
}

bool any_contains(const std::vector<std::string>& faults, const std::string& text) {
  return std::any_of(faults.begin(), faults.end(),
                     [&](const std::string& fault) { return fault.find(text) != std::string::npos; });
}

TEST_CASE("the message names the resource that nobody provides") {
  const test::SmallModel model;
  const auto program = model.build({.recompute = Recompute::full});
  INFO(text_of(program));
  CHECK(any_contains(faults_without(program, "Gather embed"), "Gather embed was not started: it is missing"));
  CHECK(any_contains(faults_without(program, "Wait Gather embed"), "weights of embed is missing"));
  CHECK(any_contains(faults_without(program, "Forward m0 layers.0"), "m0 hidden[1] is missing"));
  CHECK(any_contains(faults_without(program, "Recompute m0 layers.1"), "m0 graph of layers.1 is missing"));
  CHECK(any_contains(faults_without(program, "Backward m0 layers.0"), "m0 graph of layers.0 is never freed"));
  CHECK(any_contains(faults_without(program, "ForwardBackward m0 head"), "m0 losses is missing"));
  CHECK(any_contains(faults_without(program, "Reduce m0 head"), "Reduce m0 head was not started"));
  CHECK(any_contains(faults_without(program, "Wait Reduce m0 head"), "gradient buffer of head is never freed"));
  CHECK(any_contains(faults_without(program, "Wait Sum m0 counts"), "m0 balance_count is missing"));
  CHECK(any_contains(faults_without(program, "Clip"), "clip factor is missing"));
  CHECK(any_contains(faults_without(program, "Update"), "the result updated masters of embed is missing"));
}

TEST_CASE("a reduction over several ranks is what provides the shard gradients") {
  layout::LayoutSizes sizes;
  sizes.dp_shard = 2;
  const test::SmallModel model(false, false, config::BalanceLoss::pooled, sizes);
  const auto program = model.build({});
  CHECK(any_contains(faults_without(program, "Wait Reduce m0 head"), "shard gradients of head is missing"));
}

TEST_CASE("two sums into the same shard gradients at a time are refused") {
  layout::LayoutSizes sizes;
  sizes.dp_shard = 2;
  sizes.extra = {{.name = "emb", .size = 2}};
  const test::SmallModel model(true, true, config::BalanceLoss::pooled, sizes);
  auto program = model.build({});
  const auto lines = describe(program);
  const auto at = [&](const std::string& line) {
    return program.instructions.begin() + (std::find(lines.begin(), lines.end(), line) - lines.begin());
  };
  // The lookup's backward adds to the embedding's shard, and so does the head's reduction that is now under way.
  std::rotate(at("Wait Reduce m0 head"), at("Wait Reduce m0 head") + 1, at("Backward m0 lookup") + 1);
  CHECK(any_contains(check_order(program), "adds to shard gradients of embed while Reduce m0 head"));
}

TEST_CASE("a unit that is freed before its last use is refused") {
  const test::SmallModel model;
  auto program = model.build({.prefetch_depth = 0});
  const auto lines = describe(program);
  const auto free = std::find(lines.begin(), lines.end(), "Free layers.0.attention") - lines.begin();
  std::swap(program.instructions[static_cast<std::size_t>(free)],
            program.instructions[static_cast<std::size_t>(free - 1)]);
  CHECK(any_contains(check_order(program), "weights of layers.0.attention is freed already"));
}

TEST_CASE("a gradient buffer that changes while it is being reduced is refused") {
  const test::SmallModel model;
  auto program = model.build({});
  const auto lines = describe(program);
  const auto reduce = std::find(lines.begin(), lines.end(), "Reduce m0 layers.1.attention") - lines.begin();
  auto again = program.instructions[static_cast<std::size_t>(
      std::find(lines.begin(), lines.end(), "Backward m0 layers.1") - lines.begin())];
  program.instructions.insert(program.instructions.begin() + reduce + 1, again);
  CHECK(any_contains(check_order(program), "while Reduce m0 layers.1.attention reads it"));
}

TEST_CASE("shard gradients that are read while a reduction adds to them are refused") {
  const test::SmallModel model;
  auto program = model.build({.micro_steps = 2});
  const auto lines = describe(program);
  const auto wait = std::find(lines.begin(), lines.end(), "Wait Reduce m1 embed") - lines.begin();
  REQUIRE(lines[static_cast<std::size_t>(wait + 1)] == "Sum close");
  std::swap(program.instructions[static_cast<std::size_t>(wait)],
            program.instructions[static_cast<std::size_t>(wait + 1)]);
  CHECK(any_contains(check_order(program), "reads shard gradients of embed while Reduce m1 embed adds to it"));
}

TEST_CASE("an unsound program is the programmer's fault and says the first faults") {
  const test::SmallModel model;
  auto program = model.build({});
  expect_sound(program);
  program.instructions.pop_back();
  CHECK_THROWS_WITH(expect_sound(program), Catch::Matchers::Contains("the result updated masters of embed is missing"));
}

}  // namespace
}  // namespace tessera::program
