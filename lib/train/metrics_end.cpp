#include "train/metrics_end.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/json.h"

namespace tessera::train {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t block_bytes = 1 << 20;
constexpr std::uint64_t line_limit = 64 << 20;  // the loads of a hundred layers of ten thousand experts are shorter

// The lines of a file that end with a line break, the last one first.
class LinesFromEnd {
 public:
  explicit LinesFromEnd(const base::Path& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
    base::require(file_.good(), "cannot read {}", path.string());
    begin_ = static_cast<std::uint64_t>(std::max<std::streamoff>(file_.tellg(), 0));
    static_cast<void>(take());  // what stands behind the last line break
  }

  // False if there is no further line.
  bool next() {
    if (end() == 0) return false;
    held_.pop_back();  // its line break
    line_ = take();
    return true;
  }
  // Of the line that next() went to; without its line break.
  [[nodiscard]] std::string_view line() const { return line_; }
  [[nodiscard]] std::uint64_t line_begin() const { return end(); }
  // Bytes of the file up to the end of the lines that are still to come.
  [[nodiscard]] std::uint64_t end() const { return begin_ + held_.size(); }

 private:
  // Removes and returns what stands behind the last line break that is left.
  std::string take() {
    auto at = held_.rfind('\n');
    while (at == std::string::npos && begin_ > 0) {
      const auto before = held_.size();
      base::require(before <= line_limit, "{}: a line has more than {} bytes", path_.string(), line_limit);
      prepend_block();
      at = held_.rfind('\n', held_.size() - before);
    }
    const auto from = at == std::string::npos ? 0 : at + 1;
    auto taken = held_.substr(from);
    held_.resize(from);
    return taken;
  }

  void prepend_block() {
    const auto count = std::min(begin_, block_bytes);
    std::string block(count, '\0');
    file_.seekg(static_cast<std::streamoff>(begin_ - count));
    file_.read(block.data(), static_cast<std::streamsize>(count));
    base::require(file_.good(), "cannot read {} at byte {}", path_.string(), begin_ - count);
    begin_ -= count;
    held_.insert(0, block);
  }

  base::Path path_;
  std::ifstream file_;
  std::string held_, line_;
  std::uint64_t begin_ = 0;  // of what is held, in the file
};

double number_in(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : std::nan("");
}

std::int64_t integer_in(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

EvaluationMetrics evaluation_in(const Json& object) {
  EvaluationMetrics m{.step = integer_in(object, "step"),
                      .ce_loss = number_in(object, "eval/ce_loss"),
                      .tokens = integer_in(object, "eval/tokens"),
                      .windows = integer_in(object, "eval/windows"),
                      .seconds = number_in(object, "eval/s")};
  if (const auto at = object.find("eval/data"); at != object.end() && at->is_string()) {
    const auto& digits = at->get_ref<const std::string&>();
    std::from_chars(digits.data(), digits.data() + digits.size(), m.data_hash, 16);
  }
  return m;
}

Json object_of(const LinesFromEnd& lines, const base::Path& path) {
  const auto place = path.string() + ": the line from byte " + std::to_string(lines.line_begin());
  Json object;
  try {
    object = base::parse_json_line(lines.line(), path.string(), 1);
  } catch (const base::Error&) {
    base::fail("{} is not an object of JSON", place);
  }
  const auto at = object.is_object() ? object.find("step") : object.end();
  base::require(object.is_object() && at != object.end() && at->is_number_integer(), "{} is not an object with a step",
                place);
  return object;
}

bool is_of(const Json& object, std::string_view kind) {
  const auto at = object.find("kind");
  return at != object.end() && at->is_string() && at->get_ref<const std::string&>() == kind;
}

}  // namespace

MetricsEnd read_metrics_end(const base::Path& path, std::int64_t step) {
  MetricsEnd found;
  base::DiskWork work("reading", path.native());
  LinesFromEnd lines(path);
  found.bytes_of_lines = lines.end();
  for (auto end = lines.end(); lines.next(); end = lines.end()) {
    work.has_gone_on();
    if (lines.line().empty()) continue;
    const auto object = object_of(lines, path);
    const auto at = integer_in(object, "step");
    if (is_of(object, evaluation_kind)) {
      if (at != step || found.evaluation) continue;
      found.evaluation = evaluation_in(object);
      found.bytes_to_evaluation = end;
    } else if (at <= step && !is_of(object, traffic_kind)) {
      found.last_step = at;
      found.bytes_to_step = end;
      break;
    }
  }
  return found;
}

void cut_file(const base::Path& path, std::uint64_t bytes) {
  const base::DiskWork work("cutting", path.native());
  std::error_code error;
  std::filesystem::resize_file(path, bytes, error);
  base::require(!error, "cannot shorten {}: {}", path.string(), error.message());
}

}  // namespace tessera::train
