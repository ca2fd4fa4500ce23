#include "train/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/json.h"

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
  Line& add(const std::string& key, double value) {
    if (std::isfinite(value)) return add_text(key, digits(value));
    return add_text(key, "null").add_text(key + "/text", fmt::format("\"{}\"", word(value)));
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

base::AppendFile open(const base::Path& path, ExistingMetrics existing, base::FileSystem& files) {
  if (existing == ExistingMetrics::replace) files.create(path)->close();
  base::AppendFile file(path, files);
  if (ends_within_a_line(path)) file.write_line("");
  return file;
}

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

void cut_metrics(const base::Path& path, std::int64_t step, std::int64_t evaluated_at, base::FileSystem& files) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const auto text = base::read_file(path);
  std::string kept;
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a killed run's last line
    const auto content = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (content.empty()) continue;
    const auto object = base::parse_json_line(content, path.string(), line);
    const auto at = object.is_object() ? object.find("step") : object.end();
    base::require(object.is_object() && at != object.end() && at->is_number_integer(),
                  "{}:{}: not an object with a step; move the file away to go on without it", path.string(), line);
    const bool is_evaluation = object.contains("eval/ce_loss");
    if (at->get<std::int64_t>() <= (is_evaluation ? std::min(step, evaluated_at) : step)) kept.append(content) += '\n';
  }
  if (kept != text) base::write_file_atomically(path, kept, files);
}

MetricsFile::MetricsFile(const base::Path& path, ExistingMetrics existing, base::FileSystem& files)
    : file_(open(path, existing, files)) {}

void MetricsFile::write(const StepMetrics& m) {
  Line line;
  line.add("step", m.step)
      .add("loss", m.loss)
      .add("ce_loss", m.ce_loss)
      .add("aux_loss", m.aux_loss)
      .add("z_loss", m.z_loss);
  line.add("grad_norm", m.grad_norm);
  for (const auto& [group, norm] : m.group_norms) line.add("grad_norm/" + group, norm);
  line.add("lr", m.lr).add("tokens", m.tokens).add("tokens_per_s", m.tokens_per_s()).add("step_s", m.step_s);
  if (m.outcome == StepOutcome::skipped) line.add_text("skipped", "true");
  file_.write_line(line.str());
}

void MetricsFile::write(const EvaluationMetrics& m) {
  Line line;
  line.add("step", m.step).add("eval/ce_loss", m.ce_loss).add("eval/perplexity", m.perplexity());
  line.add("eval/tokens", m.tokens).add("eval/windows", m.windows).add("eval/s", m.seconds);
  file_.write_line(line.str());
}

void MetricsFile::write(std::int64_t step, const std::vector<GroupTraffic>& groups) {
  Line line;
  line.add("step", step);
  for (const auto& group : groups) {
    const auto key = "traffic/" + group.name;
    line.add(key + "/bytes", static_cast<std::int64_t>(group.bytes));
    line.add(key + "/s", group.seconds).add(key + "/exposed_s", group.seconds_exposed);
  }
  file_.write_line(line.str());
}

void MetricsFile::write(const ExpertLoad& load) {
  std::vector<std::string> layers;
  for (const auto& slots : load.slots) layers.push_back(fmt::format("[{}]", fmt::join(slots, ",")));
  std::vector<std::string> ratios;
  for (const double ratio : load.max_over_mean()) ratios.push_back(digits(ratio));
  Line line;
  line.add("step", load.step).add_text("expert_load", fmt::format("[{}]", fmt::join(layers, ",")));
  line.add_text("expert_load_max_over_mean", fmt::format("[{}]", fmt::join(ratios, ",")));
  file_.write_line(line.str());
}

}  // namespace tessera::train
