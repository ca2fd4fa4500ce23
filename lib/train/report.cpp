#include "train/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/log.h"
#include "base/quantity.h"
#include "base/table.h"

namespace tessera::train {
namespace {

constexpr std::size_t remembered_steps = 20;
constexpr std::int64_t rarer_in_files = 10;
constexpr double small_share = 0.001;  // kinds of instruction with less time are shown as one

using Rows = std::vector<std::pair<std::string, std::string>>;

// "  name   value" with the values in one column; rows without a value are left out.
std::string format_rows(const Rows& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : rows)
    if (!value.empty()) text += fmt::format("  {:<{}}  {}\n", name, width, value);
  return text;
}

std::string format_memory(const std::vector<std::pair<std::string, std::uint64_t>>& memory) {
  if (memory.empty()) return {};
  base::Table table({{"memory of a rank", base::Align::left}, {"bytes", base::Align::right}});
  std::uint64_t sum = 0;
  for (const auto& [purpose, bytes] : memory) {
    table.add_row({purpose, base::format_bytes(bytes)});
    sum += bytes;
  }
  table.add_row({"sum", base::format_bytes(sum)});
  return table.str(2);
}

std::string format_times(const EndPage& page) {
  if (page.seconds_by_kind.empty()) return {};
  base::Table table({{"instruction", base::Align::left}, {"time", base::Align::right}, {"share", base::Align::right}});
  double rest = page.seconds;
  const auto add = [&](const std::string& kind, double seconds) {
    table.add_row({kind, base::format_seconds(seconds),
                   page.seconds > 0 ? fmt::format("{:.1f} %", 100 * seconds / page.seconds) : ""});
  };
  auto kinds = page.seconds_by_kind;
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  double small = 0;
  for (const auto& [kind, seconds] : kinds) {
    rest -= seconds;
    if (seconds < small_share * page.seconds)
      small += seconds;
    else
      add(kind, seconds);
  }
  if (small > 0) add("all others", small);
  add("between instructions", std::max(0.0, rest));
  return table.str(2);
}

std::string without_last_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string count_per_second(double rate) { return base::format_count(std::llround(std::min(rate, 1e18))); }

// Hidden: the share of a group's time that was not waited for.
std::string format_groups(const EndPage& page) {
  auto groups = page.groups;
  std::erase_if(groups, [](const auto& group) { return group.bytes == 0; });
  if (groups.empty()) return {};
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  base::Table table({{"group", base::Align::left},
                     {"sent", base::Align::right},
                     {"time", base::Align::right},
                     {"exposed", base::Align::right},
                     {"hidden", base::Align::right}});
  for (const auto& group : groups)
    table.add_row(
        {group.name, base::format_bytes(group.bytes), base::format_seconds(group.seconds),
         base::format_seconds(group.seconds_exposed),
         group.seconds > 0 ? fmt::format("{:.0f} %", 100 * (1 - group.seconds_exposed / group.seconds)) : ""});
  return table.str(2);
}

}  // namespace

std::string format_start(const StartPage& page) {
  const double active = page.total_parameters > 0 ? 100.0 * static_cast<double>(page.active_parameters) /
                                                        static_cast<double>(page.total_parameters)
                                                  : 0;
  std::string text = "Tessera\n";
  text += format_rows(
      {{"model", page.model},
       {"parameters", fmt::format("{} total, {} active per token ({:.0f} %)", base::format_count(page.total_parameters),
                                  base::format_count(page.active_parameters), active)},
       {"data", page.data},
       {"held out", page.evaluation},
       {"steps", page.steps},
       {"tokens a step", base::format_count(page.tokens_per_step)},
       {"optimizer", page.optimizer},
       {"device", page.device},
       {"precision", page.precision},
       {"ranks", fmt::format("{}{}", page.ranks, page.hosts.empty() ? "" : ": " + page.hosts)},
       {"layout", page.layout},
       {"backend", page.backend},
       {"output", page.output},
       {"checkpoints", page.checkpoints}});
  text += format_memory(page.memory);
  for (const std::string& note : page.notes) text += fmt::format("  note: {}\n", note);
  return without_last_newline(std::move(text));
}

std::string format_step(const StepReport& report) {
  const StepMetrics& m = report.metrics;
  const auto total = fmt::format("{}", report.total_steps);
  auto text = fmt::format("step {:>{}}/{}  ", m.step, total.size(), total);
  if (m.outcome == StepOutcome::without_targets)
    text += "no token has a target";
  else
    text += fmt::format("loss {:.4f} (ce {:.4f}, aux {:.4f}, z {:.4f})  norm {:.3f}  lr {:.2e}  {} tokens/s", m.loss,
                        m.ce_loss, m.aux_loss, m.z_loss, m.grad_norm, m.lr, count_per_second(m.tokens_per_s()));
  if (m.outcome != StepOutcome::updated) text += "  skipped";
  if (report.seconds_left > 0) text += "  left " + base::format_seconds(report.seconds_left);
  return text;
}

std::string format_evaluation(const EvaluationMetrics& m) {
  const auto numbers = m.tokens > 0 ? fmt::format("cross entropy {:.4f}, perplexity {:.3f}", m.ce_loss, m.perplexity())
                                    : std::string("no token has a target");
  return fmt::format("evaluation after step {}: {} ({} tokens in {} windows, {})", m.step, numbers,
                     base::format_count(m.tokens), base::format_count(m.windows), base::format_seconds(m.seconds));
}

std::string format_expert_load(const ExpertLoad& load) {
  const auto ratios = load.max_over_mean();
  const auto worst = std::max_element(ratios.begin(), ratios.end());
  const auto sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
  return fmt::format("expert load at step {}: max/mean {:.2f} (MoE layer {} of {}), {:.2f} on average over layers",
                     load.step, *worst, worst - ratios.begin() + 1, ratios.size(),
                     sum / static_cast<double>(ratios.size()));
}

std::string format_end(const EndPage& page) {
  std::string text = page.reason + "\n";
  const double rate = page.step_seconds > 0 ? static_cast<double>(page.tokens) / page.step_seconds : 0;
  text += format_rows(
      {{"steps", fmt::format("{}{}", page.steps,
                             page.skipped_steps > 0 ? fmt::format(" ({} skipped)", page.skipped_steps) : "")},
       {"tokens", fmt::format("{} ({} tokens/s)", base::format_count(page.tokens), count_per_second(rate))},
       {"time", base::format_seconds(page.seconds)},
       {"peak memory", page.peak_memory > 0 ? base::format_bytes(page.peak_memory) : ""}});
  text += format_times(page);
  text += format_groups(page);
  for (const std::string& result : page.results) text += fmt::format("  {}\n", result);
  return without_last_newline(std::move(text));
}

Audience audience_of_log() { return isatty(STDERR_FILENO) == 1 ? Audience::terminal : Audience::file; }

Report::Report(std::int64_t total_steps, std::int64_t every, Audience audience)
    : total_steps_(total_steps),
      every_(std::max<std::int64_t>(1, every) * (audience == Audience::file ? rarer_in_files : 1)) {}

void Report::start(const StartPage& page) const { base::log_info("{}", format_start(page)); }

void Report::step(const StepMetrics& metrics) {
  if (first_step_ == 0) first_step_ = metrics.step;
  last_step_ = metrics.step;
  if (last_step_ == first_step_ + 1) step_seconds_.clear();
  step_seconds_.push_back(metrics.step_s);
  if (step_seconds_.size() > remembered_steps) step_seconds_.pop_front();
  if (shows(metrics)) base::log_info("{}", format_step({metrics, total_steps_, seconds_left()}));
}

void Report::evaluation(const EvaluationMetrics& metrics) const { base::log_info("{}", format_evaluation(metrics)); }

void Report::expert_load(const ExpertLoad& load) const { base::log_info("{}", format_expert_load(load)); }

void Report::end(const EndPage& page) const { base::log_info("{}", format_end(page)); }

bool Report::shows(const StepMetrics& metrics) const {
  return metrics.step == first_step_ || metrics.step == total_steps_ || metrics.step % every_ == 0 ||
         metrics.outcome != StepOutcome::updated;
}

double Report::seconds_left() const {
  if (step_seconds_.empty()) return -1;
  const double sum = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0);
  return sum / static_cast<double>(step_seconds_.size()) *
         static_cast<double>(std::max<std::int64_t>(0, total_steps_ - last_step_));
}

}  // namespace tessera::train
