// If this failed, the log would show wrong numbers, or fill a file with lines.
#include "train/report.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/log.h"
#include "support/about.h"
#include "support/catch.h"

namespace tessera::train {
namespace {

using Catch::Matchers::Contains;

StepMetrics step_of(std::int64_t number, double seconds = 1) {
  StepMetrics metrics;
  metrics.step = number;
  metrics.step_s = seconds;
  return metrics;
}

// The lines themselves are not wanted on the tests' output.
class QuietLog {
 public:
  QuietLog() { base::set_log(base::LogLevel::warning, true); }
  ~QuietLog() { base::set_log(base::LogLevel::info, true); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

std::vector<std::int64_t> shown(std::int64_t total, std::int64_t every, Audience audience, std::int64_t first) {
  const QuietLog quiet;
  Report report(total, every, audience);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = first; step <= total; ++step) {
    report.step(step_of(step));
    if (report.shows(step_of(step))) steps.push_back(step);
  }
  return steps;
}

TEST_CASE("a step line has loss and parts, norm, rate, speed and time left") {
  StepReport report;
  report.metrics = {12, 2.35, 2.34, 1.0312, 0.00004, 1.2344, {{"dense", 1.0}}, 3e-4, 6170, 0.5, StepOutcome::updated};
  report.total_steps = 200;
  report.seconds_left = 80;
  CHECK(format_step(report) ==
        "step  12/200  loss 2.3500 (ce 2.3400, aux 1.0312, z 0.0000)  norm 1.234  lr 3.00e-04  12.3k tokens/s  left 1 "
        "min 20 s");
  report.metrics.outcome = StepOutcome::skipped;
  report.seconds_left = -1;
  CHECK_THAT(format_step(report), Catch::Matchers::EndsWith("12.3k tokens/s  skipped"));
}

TEST_CASE("losses that were not measured, because no token has a target, are not shown as numbers") {
  StepMetrics step = step_of(7);
  step.tokens = 13;
  step.outcome = StepOutcome::without_targets;
  CHECK(format_step({step, 12, 80}) == "step  7/12  no token has a target  skipped  left 1 min 20 s");
  CHECK(format_evaluation({.step = 7, .ce_loss = std::nan(""), .tokens = 0, .windows = 3, .seconds = 1}) ==
        "evaluation after step 7: no token has a target (0 tokens in 3 windows, 1.00 s)");
}

TEST_CASE("on a terminal every N-th step is shown, in a file ten times fewer, and always the first and the last") {
  CHECK(shown(5, 1, Audience::terminal, 1) == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(shown(8, 3, Audience::terminal, 1) == std::vector<std::int64_t>{1, 3, 6, 8});
  CHECK(shown(23, 1, Audience::file, 1) == std::vector<std::int64_t>{1, 10, 20, 23});
  CHECK(shown(23, 1, Audience::file, 14) == std::vector<std::int64_t>{14, 20, 23});
}

TEST_CASE("a skipped step is always shown") {
  const QuietLog quiet;
  Report report(100, 10, Audience::file);
  report.step(step_of(1));
  StepMetrics skipped = step_of(7);
  CHECK_FALSE(report.shows(skipped));
  skipped.outcome = StepOutcome::skipped;
  CHECK(report.shows(skipped));
  skipped.outcome = StepOutcome::without_targets;
  CHECK(report.shows(skipped));
}

TEST_CASE("the time left follows the last steps and forgets the slow first one") {
  const QuietLog quiet;
  Report report(100, 1, Audience::terminal);
  CHECK(report.seconds_left() < 0);
  report.step(step_of(1, 9));
  CHECK(report.seconds_left() == test::about(9 * 99));
  report.step(step_of(2, 1));
  CHECK(report.seconds_left() == test::about(98));
  for (std::int64_t step = 3; step <= 40; ++step) report.step(step_of(step, 2));
  CHECK(report.seconds_left() == test::about(2 * 60));
  for (std::int64_t step = 41; step <= 100; ++step) report.step(step_of(step, 2));
  CHECK(report.seconds_left() == 0);
}

TEST_CASE("the start page names model, counts, memory by purpose with its sum, and notes") {
  StartPage page;
  page.model = "Qwen3-MoE, 4 layers";
  page.total_parameters = 3'210'000;
  page.active_parameters = 802'000;
  page.tokens_per_step = 8192;
  page.device = "CPU (2 threads)";
  page.precision = "float32";
  page.layout = "dp_replicate 1, dp_shard 1; no named groups";
  page.memory = {{"masters", 1024 * 1024}, {"gradients", 512 * 1024}};
  page.notes = {"ep has size 1"};
  const std::string text = format_start(page);
  CHECK_THAT(text, Contains("parameters     3.21M total, 802k active per token (25 %)"));
  CHECK_THAT(text, Contains("tokens a step  8.19k"));
  CHECK_THAT(text, Contains("device         CPU (2 threads)"));
  CHECK_THAT(text, Contains("layout         dp_replicate 1, dp_shard 1; no named groups"));
  CHECK_THAT(text, Contains("gradients          512 KiB"));
  CHECK_THAT(text, Contains("sum               1.50 MiB"));
  CHECK_THAT(text, Contains("note: ep has size 1"));
  CHECK_THAT(text, !Contains("held out"));
  CHECK(text.back() != '\n');
}

TEST_CASE("an evaluation line has cross entropy and perplexity") {
  CHECK(format_evaluation({100, 2.0794415416798357, 6250, 120, 1.21}) ==
        "evaluation after step 100: cross entropy 2.0794, perplexity 8.000 (6.25k tokens in 120 windows, 1.21 s)");
}

TEST_CASE("a line of expert load names the most uneven layer") {
  CHECK(format_expert_load({20, {{4, 4, 4, 4}, {9, 0, 6, 1}, {5, 3, 4, 4}}}) ==
        "expert load at step 20: max/mean 2.25 (MoE layer 2 of 3), 1.50 on average over layers");
}

TEST_CASE("the end page has the longest kinds of instruction first, the very short ones as one line") {
  EndPage page;
  page.seconds = 100;
  page.seconds_by_kind = {{"Clip", 0.01}, {"Forward", 40}, {"Free", 0.02}, {"Backward", 50}};
  const std::string text = format_end(page);
  CHECK(text.find("Backward") < text.find("Forward"));
  CHECK_THAT(text, !Contains("Clip") && !Contains("Free"));
  CHECK_THAT(text, Contains("all others            30.0 ms   0.0 %"));
}

TEST_CASE("the end page shows the time of each kind of instruction, and the rest") {
  EndPage page;
  page.reason = "all 200 steps are done";
  page.steps = 200;
  page.skipped_steps = 2;
  page.tokens = 20000;
  page.seconds = 10;
  page.step_seconds = 8;
  page.seconds_by_kind = {{"Forward", 4}, {"Backward", 5}};
  page.results = {"held-out cross entropy 2.1"};
  const std::string text = format_end(page);
  CHECK_THAT(text, Contains("all 200 steps are done\n"));
  CHECK_THAT(text, Contains("200 (2 skipped)"));
  CHECK_THAT(text, Contains("(2.50k tokens/s)"));
  CHECK_THAT(text, Contains("Forward               4.00 s  40.0 %"));
  CHECK_THAT(text, Contains("between instructions  1.00 s  10.0 %"));
  CHECK_THAT(text, Contains("held-out cross entropy 2.1"));
  CHECK_THAT(text, !Contains("peak memory"));
}

TEST_CASE("the end page shows the bytes of each group, and how much of its time was hidden") {
  EndPage page{.reason = "all 2 steps are done"};
  page.groups = {{"ep", 1 << 20, 0.5, 0.125}, {"fsdp", 8 << 20, 2.0, 0.1}, {"emb", 0, 0, 0}};
  const std::string text = format_end(page);
  CHECK(text.find("fsdp") < text.find("ep "));  // the most bytes first
  CHECK(text.find("95 %") != std::string::npos);
  CHECK(text.find("75 %") != std::string::npos);
  CHECK(text.find("8.00 MiB") != std::string::npos);
  CHECK(text.find("emb") == std::string::npos);
}

}  // namespace
}  // namespace tessera::train
