// metrics.jsonl: what a run measured, one JSON object a line, for programs. Each says by "kind" which of the structs
// below it is.
//
// Numbers have enough digits to give back the same bits. A number that is not finite is null (JSON has no word for it),
// and "<key>/text" says "nan", "inf" or "-inf". What was not measured, since no token has a target, is null alone. Each
// line is with the operating system before the next begins, so that a killed run loses at most the line being written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace tessera::train {

// What "kind" says.
inline constexpr const char* step_kind = "step";
inline constexpr const char* evaluation_kind = "evaluation";
inline constexpr const char* load_kind = "load";
inline constexpr const char* traffic_kind = "traffic";

enum class StepOutcome : std::uint8_t {
  updated,
  skipped,         // the numbers are not finite
  without_targets  // skipped too: no token has a target, and neither losses nor norms were measured
};

// One optimizer step. Keys: kind, step, loss, ce_loss, aux_loss, z_loss, grad_norm, grad_norm/<group>, lr, tokens,
// tokens_per_s, step_s, skipped (only then, true). Of a step without targets losses and grad_norm are null, whatever
// they are here.
struct StepMetrics {
  std::int64_t step = 0;  // the first is 1
  double loss = 0;        // what is minimised: cross entropy, balance and z-loss with their coefficients
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
  std::int64_t step = 0;  // optimizer steps done
  double ce_loss = 0;     // mean over valid tokens, without balance and z-loss; not measured if there are none
  std::int64_t tokens = 0, windows = 0;
  double seconds = 0;
  std::uint64_t data_hash = 0;  // tells other held-out data apart

  [[nodiscard]] double perplexity() const;  // exp(ce_loss)
};

// Slots of each expert in the global batch of a step. Keys: kind, step, expert_load [MoE layer][expert],
// expert_load_max_over_mean [MoE layer].
struct ExpertLoad {
  std::int64_t step = 0;
  std::vector<std::vector<std::int64_t>> slots;

  // Of each layer: slots of its busiest expert / mean over its experts, 1 (balanced) to the number of experts; 0 for a
  // layer without slots.
  [[nodiscard]] std::vector<double> max_over_mean() const;
};

// What this rank sent to the others of a group since the start, and how long that took. A line for all groups; keys:
// kind, step, steps (taken since the start), traffic/<group>/bytes, traffic/<group>/s, traffic/<group>/exposed_s.
struct GroupTraffic {
  std::string name;
  std::uint64_t bytes = 0;
  double seconds = 0;          // of its collectives, from the start of each to its end; they may overlap
  double seconds_exposed = 0;  // of these, for which the rank waited and did nothing else
};

enum class ExistingMetrics : std::uint8_t { replace, keep };  // keep: a resumed run goes on in the same file

// Written by one rank. A disk that is full does not end a run: lines that cannot be written are kept, with one warning,
// and written before the next one.
class MetricsFile {
 public:
  // With keep, a line that a killed run left unfinished is ended first, so that the next one stands alone. Error with
  // path and reason.
  MetricsFile(const base::Path& path, ExistingMetrics existing, base::FileSystem& files = base::posix_file_system());

  // Error(rank_failed) if more than kept_limit bytes of lines would be kept.
  void write(const StepMetrics& metrics);
  void write(const EvaluationMetrics& metrics);
  void write(const ExpertLoad& load);
  // `step`: the last one; `steps`: taken since the start.
  void write(std::int64_t step, std::int64_t steps, const std::vector<GroupTraffic>& groups);
  // Error(rank_failed) with path and reason if lines remain that cannot be written.
  void close();

  static constexpr std::size_t kept_limit = 64 << 20;

 private:
  void write_line(const std::string& line);
  void write_kept();

  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
  std::uint64_t whole_ = 0;  // bytes of the file before the lines that are kept
  std::string kept_;
  bool is_behind_ = false;  // lines are kept, and that was told
};

}  // namespace tessera::train
