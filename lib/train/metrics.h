// Writes metrics.jsonl, the measurements of a run for other programs: one JSON object a line. The key "kind" of an
// object names one of the structs below.
//
// Numbers have enough digits to give back the same bits. A number that is not finite is null (JSON has no word for it),
// and "<key>/text" says "nan", "inf" or "-inf". A number that was not measured, because no token has a target, is null
// without a text. The operating system has each line before the next one begins, so that a killed run loses at most the
// line being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace tessera::train {

// The values of "kind".
inline constexpr const char* step_kind = "step";
inline constexpr const char* evaluation_kind = "evaluation";
inline constexpr const char* load_kind = "load";
inline constexpr const char* traffic_kind = "traffic";

enum class StepOutcome : std::uint8_t {
  updated,
  skipped,         // because a loss or norm is not finite
  without_targets  // skipped because no token has a target; losses and norms were not measured
};

// One training step. Keys: kind, step, loss, ce_loss, aux_loss, z_loss, grad_norm, grad_norm/<group>, lr, tokens,
// tokens_per_s, step_s, and skipped (true) if it made no update. The file has null for losses and grad_norm of a step
// without targets, whatever they are here.
struct StepMetrics {
  std::int64_t step = 0;  // the first is 1
  double loss = 0;        // the minimised sum of cross entropy, balance and z-loss with their coefficients
  double ce_loss = 0;     // mean over valid tokens
  double aux_loss = 0;    // balance loss without its coefficient
  double z_loss = 0;      // router z-loss without its coefficient
  double grad_norm = 0;   // before clipping
  std::vector<std::pair<std::string, double>> group_norms;  // "dense", "ep", ...
  double lr = 0;
  std::int64_t tokens = 0;  // of the global batch
  double step_s = 0;        // wall clock
  StepOutcome outcome = StepOutcome::updated;

  [[nodiscard]] double tokens_per_s() const { return step_s > 0 ? static_cast<double>(tokens) / step_s : 0; }
};

// One evaluation. Keys: kind, step, eval/ce_loss, eval/perplexity, eval/tokens, eval/windows, eval/s, eval/data.
struct EvaluationMetrics {
  std::int64_t step = 0;  // training steps before it
  double ce_loss = 0;     // mean over valid tokens, without balance and z-loss; not measured if no token is valid
  std::int64_t tokens = 0, windows = 0;
  double seconds = 0;
  std::uint64_t data_hash = 0;  // tells other held-out data apart

  [[nodiscard]] double perplexity() const;  // exp(ce_loss)
};

// The number of slots of each expert in the global batch of a step. Keys: kind, step, expert_load [MoE layer][expert],
// expert_load_max_over_mean [MoE layer].
struct ExpertLoad {
  std::int64_t step = 0;
  std::vector<std::vector<std::int64_t>> slots;  // [MoE layer][expert]

  // Returns, by layer, the slots of the busiest expert divided by the mean over the experts: from 1 (balanced) to the
  // number of experts, or 0 for a layer without slots.
  [[nodiscard]] std::vector<double> max_over_mean() const;
};

// The traffic of one group on this rank since the start of the run. One line has all groups; keys: kind, step, steps
// (taken since the start), traffic/<group>/bytes, traffic/<group>/s, traffic/<group>/exposed_s.
struct GroupTraffic {
  std::string name;
  std::uint64_t bytes = 0;     // sent to the other ranks of the group
  double seconds = 0;          // the sum over its collectives, each from its start to its end; they may overlap
  double seconds_exposed = 0;  // the part of `seconds` in which the rank waited and did nothing else
};

enum class ExistingMetrics : std::uint8_t { replace, keep };  // keep: a resumed run goes on in the same file

// One rank writes the file. A full disk does not end a run: the object keeps lines that it cannot write, warns once,
// and writes them before the next line.
class MetricsFile {
 public:
  // With `keep`, ends a line that a killed run left unfinished, so that the next line stands alone. Throws
  // Error(bad_input) with path and reason if the file cannot be opened.
  MetricsFile(const base::Path& path, ExistingMetrics existing, base::FileSystem& files = base::posix_file_system());

  // Each writes one line. Throw Error(rank_failed) if more than kept_limit bytes of lines would be kept.
  void write(const StepMetrics& metrics);
  void write(const EvaluationMetrics& metrics);
  void write(const ExpertLoad& load);
  // `step`: the last step; `steps`: the number of steps since the start.
  void write(std::int64_t step, std::int64_t steps, const std::vector<GroupTraffic>& groups);
  // Throws Error(rank_failed) with path and reason if lines remain that cannot be written.
  void close();

  static constexpr std::size_t kept_limit = 64 << 20;

 private:
  void write_line(const std::string& line);
  void write_kept();

  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
  std::uint64_t whole_ = 0;  // bytes of the file before the kept lines
  std::string kept_;
  bool is_behind_ = false;  // there are kept lines, and the warning was given
};

}  // namespace tessera::train
