#include "train/output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/new_folder.h"
#include "comm/agreement.h"
#include "config/dump.h"
#include "train/metrics_end.h"
#include "train/try_outputs.h"
#include "train/weights.h"

namespace tessera::train {
namespace {

// Every rank sees the lock that rank 0 holds, or the folder is not one. A network disk may show another host a new file
// only after its caches have expired.
void require_shared_folder(const base::Path& output, const OutputClaim& claim, comm::Communicator& ranks,
                           const Hosts& hosts) {
  constexpr int most_looks = 40;  // one a second
  const auto hash = comm::numbers_of_ranks(ranks, claim ? static_cast<std::int64_t>(base::xxh3(claim->text())) : 0);
  const auto sees = [&] {
    return static_cast<std::int64_t>(base::xxh3(checkpoint::lock_text(output))) == hash.front();
  };
  const bool is_elsewhere = hosts.host_of(ranks.rank()) != hosts.host_of(0);
  {
    base::DiskWork work("looking for the lock", output.native());
    for (int look = 0; look < most_looks && is_elsewhere && !sees(); ++look, work.has_gone_on())
      std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const auto seen = comm::numbers_of_ranks(ranks, sees() ? 1 : 0);
  std::vector<std::size_t> blind;
  for (std::size_t rank = 0; rank < seen.size(); ++rank)
    if (seen[rank] == 0) blind.push_back(rank);
  if (!blind.empty())
    throw comm::AgreedError(
        base::ExitCode::bad_input,
        fmt::format("train.checkpoint.output_dir = {} is not the same folder on all ranks: rank {} {} "
                    "not see what rank 0 wrote there; use a file system that all hosts share",
                    output.string(), fmt::join(blind, ", "), blind.size() == 1 ? "does" : "do"));
}

// The folders on the way to `path` that are not there, the innermost first.
std::vector<base::Path> missing_folders(base::Path path) {
  std::vector<base::Path> missing;
  std::error_code ignored;
  for (; !path.empty() && !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
       path = path.parent_path())
    missing.push_back(path);
  return missing;
}

// Rank 0's: what a killed run left behind.
void remove_leftovers(const base::Path& output) {
  auto left = checkpoint::list_checkpoints(output).unfinished;
  std::error_code ignored;
  if (const auto weights = unfinished_weights(output); std::filesystem::exists(weights, ignored))
    left.push_back(weights);
  for (const auto& folder : left) {
    base::log_warning("{} was left behind by a save or removal that did not end; it is removed", folder.string());
    base::posix_file_system().remove(folder);
  }
}

// A file with something in it: not a device, which keeps nothing.
bool has_content(const base::Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0 && !error;
}

// The metrics that stand in the folder are not those of the run up to its beginning.
void move_metrics_aside(const base::Path& path, const std::string& why) {
  if (!has_content(path)) return;
  const auto aside = checkpoint::move_aside(path, base::posix_file_system());
  base::log_warning("{} {}; it is kept as {}", path.string(), why, aside.string());
}

// Settings of another run are kept, as its metrics are.
void write_settings(const base::Path& path, const std::string& text, ExistingMetrics run) {
  if (run == ExistingMetrics::replace && has_content(path) && base::read_file(path) != text) {
    const auto aside = checkpoint::move_aside(path, base::posix_file_system());
    base::log_warning("{} has the settings of another run; it is kept as {}", path.string(), aside.string());
  }
  base::write_file_atomically(path, text);
}

// Rank 0's. Leaves the lines of the run up to its beginning, and looks for the evaluation there.
ExistingMetrics prepare_metrics(const base::Path& path, const Beginning& beginning, bool goes_on,
                                const config::TrainSettings& settings, const data::Dataset* evaluation,
                                std::optional<EvaluationMetrics>& found) {
  if (!goes_on) {
    move_metrics_aside(path, "has the lines of another run");
    return ExistingMetrics::replace;
  }
  if (!has_content(path)) return ExistingMetrics::keep;
  const auto step = beginning.progress.step;
  MetricsEnd end;
  try {
    end = read_metrics_end(path, step);
  } catch (const base::Error& error) {
    move_metrics_aside(path, fmt::format("cannot be continued ({})", error.what()));
    return ExistingMetrics::replace;
  }
  if (step == 0) {  // weights alone, which no line led to
    move_metrics_aside(path, "has the lines of another run");
    return ExistingMetrics::replace;
  }
  if (end.last_step != step) {
    move_metrics_aside(path, fmt::format("does not lead to step {}, from which this run goes on, but to step {}", step,
                                         end.last_step));
    return ExistingMetrics::replace;
  }
  // Else it was the end of a shorter run, in the middle of which this one does not evaluate.
  const bool evaluates = beginning.is_finished() || (settings.eval_steps > 0 && step % settings.eval_steps == 0);
  // One that is not finite may have ended the run, and is made again.
  const bool is_void = end.evaluation && !std::isfinite(end.evaluation->ce_loss);
  if (evaluates && end.evaluation && !is_void && evaluation != nullptr &&
      end.evaluation->data_hash == hash_of(*evaluation))
    found = end.evaluation;
  if (!beginning.is_finished() || is_void)
    cut_file(path, found ? end.bytes_to_evaluation : end.bytes_to_step);
  else
    cut_file(path, end.bytes_of_lines);
  return ExistingMetrics::keep;
}

// Makes and locks the folder, and tries what will be written. If that fails, the folders that it made are gone again.
void make_output(const config::Settings& settings, OutputClaim& claim, comm::Communicator& ranks, const Hosts& hosts) {
  const base::Path folder = settings.train.checkpoint.output_dir;
  std::vector<base::Path> made;  // rank 0's
  try {
    comm::agree_on(ranks, [&] {
      if (ranks.rank() != 0) return;
      made = missing_folders(folder);
      base::make_folder(folder);
      if (!claim) claim.emplace(folder);
    });
    require_shared_folder(folder, claim, ranks, hosts);
    try_outputs(settings, ranks);
  } catch (const comm::AgreedError&) {
    if (!made.empty()) claim.reset();
    for (const auto& path : made) ::rmdir(path.c_str());
    throw;
  }
}

}  // namespace

OutputClaim claim_output(const config::CheckpointSettings& settings, comm::Communicator& ranks) {
  OutputClaim claim;
  comm::agree_on(ranks, [&] {
    std::error_code ignored;
    if (ranks.rank() == 0 && std::filesystem::is_directory(settings.output_dir, ignored))
      claim.emplace(settings.output_dir);
  });
  return claim;
}

Output open_output(const config::Settings& settings, const Beginning& beginning, const data::Dataset* evaluation,
                   OutputClaim& claim, comm::Communicator& ranks, const Hosts& hosts) {
  const base::Path folder = settings.train.checkpoint.output_dir;
  make_output(settings, claim, ranks, hosts);
  const bool goes_on = beginning.saved_in(folder, ranks).has_value();
  Output output;
  comm::agree_on(ranks, [&] {
    if (ranks.rank() != 0) return;
    remove_leftovers(folder);
    const auto existing =
        prepare_metrics(folder / metrics_name, beginning, goes_on, settings.train, evaluation, output.evaluation);
    write_settings(folder / settings_name, config::dump_settings(settings), existing);
    output.metrics.emplace(folder / metrics_name, existing);
  });
  output.is_evaluated = comm::numbers_of_ranks(ranks, output.evaluation ? 1 : 0).front() != 0;
  return output;
}

}  // namespace tessera::train
