#include "train/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace tessera::train {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// The shortest digits that give back the same bits, and always a floating number (-0.0, not -0).
std::string digits(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string_view word(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// One object, member by member.
class Line {
 public:
  Line(const char* kind, std::int64_t step) { add_text("kind", quoted(kind)).add("step", step); }
  Line& add(const std::string& key, double value) {
    if (std::isfinite(value)) return add_text(key, digits(value));
    return add_text(key, "null").add_text(key + "/text", fmt::format("\"{}\"", word(value)));
  }
  Line& add_if(bool is_measured, const std::string& key, double value) {
    return is_measured ? add(key, value) : add_text(key, "null");
  }
  Line& add(const std::string& key, std::int64_t value) { return add_text(key, fmt::format("{}", value)); }
  Line& add_text(const std::string& key, std::string_view json) {
    text_ += text_.empty() ? "{" : ",";
    text_ += quoted(key);
    text_ += ':';
    text_ += json;
    return *this;
  }
  [[nodiscard]] std::string str() const { return text_ + "}"; }

 private:
  std::string text_;
};

bool ends_within_a_line(const base::Path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

std::unique_ptr<base::WritableFile> open(const base::Path& path, ExistingMetrics existing, base::FileSystem& files) {
  if (existing == ExistingMetrics::replace) files.create(path)->close();
  return files.open_for_append(path);
}

// 0 for what is no regular file.
std::uint64_t size_of(const base::Path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

std::vector<double> ExpertLoad::max_over_mean() const {
  std::vector<double> ratios;
  for (const auto& layer : slots) {
    const auto sum = static_cast<double>(std::accumulate(layer.begin(), layer.end(), std::int64_t{0}));
    const auto most = layer.empty() ? 0.0 : static_cast<double>(*std::max_element(layer.begin(), layer.end()));
    ratios.push_back(sum > 0 ? most * static_cast<double>(layer.size()) / sum : 0.0);
  }
  return ratios;
}

double EvaluationMetrics::perplexity() const { return std::exp(ce_loss); }

MetricsFile::MetricsFile(const base::Path& path, ExistingMetrics existing, base::FileSystem& files)
    : path_(path), file_(open(path, existing, files)) {
  const base::DiskWork work("reading", path_.native());
  if (ends_within_a_line(path)) file_->write(bytes_of("\n"));
  whole_ = size_of(path);
}

void MetricsFile::write_line(const std::string& line) {
  kept_.append(line) += '\n';
  try {
    write_kept();
  } catch (const base::Error& error) {
    if (kept_.size() > kept_limit) throw base::Error(base::ExitCode::rank_failed, error.what());
    if (!std::exchange(is_behind_, true))
      base::log_warning("{}; training goes on, the lines are kept and written when that is possible", error.what());
    return;
  }
  if (std::exchange(is_behind_, false)) base::log_info("{} has all lines again", path_.string());
}

// A write that fails may leave the first bytes of what it was given.
void MetricsFile::write_kept() {
  if (is_behind_) {
    const auto size = size_of(path_);
    const auto there = std::min<std::uint64_t>(size > whole_ ? size - whole_ : 0, kept_.size());
    kept_.erase(0, there);
    whole_ += there;
  }
  if (!kept_.empty()) file_->write(bytes_of(kept_));
  whole_ += kept_.size();
  kept_.clear();
}

void MetricsFile::close() {
  try {
    write_kept();
    file_->close();
  } catch (const base::Error& error) {
    throw base::Error(base::ExitCode::rank_failed, error.what());
  }
}

void MetricsFile::write(const StepMetrics& m) {
  Line line(step_kind, m.step);
  const bool is_measured = m.outcome != StepOutcome::without_targets;
  const auto add = [&](const std::string& key, double value) { line.add_if(is_measured, key, value); };
  add("loss", m.loss);
  add("ce_loss", m.ce_loss);
  add("aux_loss", m.aux_loss);
  add("z_loss", m.z_loss);
  add("grad_norm", m.grad_norm);
  for (const auto& [group, norm] : m.group_norms) add("grad_norm/" + group, norm);
  line.add("lr", m.lr).add("tokens", m.tokens).add("tokens_per_s", m.tokens_per_s()).add("step_s", m.step_s);
  if (m.outcome != StepOutcome::updated) line.add_text("skipped", "true");
  write_line(line.str());
}

void MetricsFile::write(const EvaluationMetrics& m) {
  Line line(evaluation_kind, m.step);
  const bool is_measured = m.tokens > 0;
  line.add_if(is_measured, "eval/ce_loss", m.ce_loss).add_if(is_measured, "eval/perplexity", m.perplexity());
  line.add("eval/tokens", m.tokens).add("eval/windows", m.windows).add("eval/s", m.seconds);
  line.add_text("eval/data", quoted(base::hex(m.data_hash)));
  write_line(line.str());
}

void MetricsFile::write(std::int64_t step, std::int64_t steps, const std::vector<GroupTraffic>& groups) {
  Line line(traffic_kind, step);
  line.add("steps", steps);
  for (const auto& group : groups) {
    const auto key = "traffic/" + group.name;
    line.add(key + "/bytes", static_cast<std::int64_t>(group.bytes));
    line.add(key + "/s", group.seconds).add(key + "/exposed_s", group.seconds_exposed);
  }
  write_line(line.str());
}

void MetricsFile::write(const ExpertLoad& load) {
  std::vector<std::string> layers;
  for (const auto& slots : load.slots) layers.push_back(fmt::format("[{}]", fmt::join(slots, ",")));
  std::vector<std::string> ratios;
  for (const double ratio : load.max_over_mean()) ratios.push_back(digits(ratio));
  Line line(load_kind, load.step);
  line.add_text("expert_load", fmt::format("[{}]", fmt::join(layers, ",")));
  line.add_text("expert_load_max_over_mean", fmt::format("[{}]", fmt::join(ratios, ",")));
  write_line(line.str());
}

}  // namespace tessera::train
