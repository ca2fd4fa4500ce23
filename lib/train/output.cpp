#include "train/output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/huggingface_writer.h"
#include "comm/agreement.h"
#include "config/dump.h"

namespace tessera::train {
namespace {

// Every rank sees the lock that rank 0 holds, or the folder is not one. A network disk may show another host a new file
// only after its caches have expired.
void require_shared_folder(const base::Path& output, const OutputClaim& claim, comm::Communicator& ranks,
                           const Hosts& hosts) {
  constexpr double patience = 40;
  const auto hash = comm::numbers_of_ranks(ranks, claim ? static_cast<std::int64_t>(base::xxh3(claim->text())) : 0);
  const auto sees = [&] {
    return static_cast<std::int64_t>(base::xxh3(checkpoint::lock_text(output))) == hash.front();
  };
  const bool is_elsewhere = hosts.host_of(ranks.rank()) != hosts.host_of(0);
  const auto began = base::seconds_now();
  while (!sees() && is_elsewhere && base::seconds_now() - began < patience)
    std::this_thread::sleep_for(std::chrono::seconds(1));
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

// Rank 0's: what a killed run left behind.
void remove_leftovers(const base::Path& output) {
  for (const auto& folder : checkpoint::list_checkpoints(output).unfinished) {
    base::log_warning("{} is what a save or removal that did not end left behind; it is removed", folder.string());
    base::posix_file_system().remove(folder);
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

std::optional<MetricsFile> open_output(const config::Settings& settings, const Beginning& beginning, OutputClaim& claim,
                                       comm::Communicator& ranks, const Hosts& hosts) {
  const base::Path output = settings.train.checkpoint.output_dir;
  comm::agree_on(ranks, [&] {
    if (ranks.rank() != 0) return;
    base::make_folder(output);
    if (!claim) claim.emplace(output);
  });
  require_shared_folder(output, claim, ranks, hosts);
  std::optional<MetricsFile> metrics;
  comm::agree_on(ranks, [&] {
    if (ranks.rank() != 0) return;
    remove_leftovers(output);
    base::write_file_atomically(output / "settings.resolved.json", config::dump_settings(settings));
    const bool resumes = beginning.folder.has_value();
    if (resumes) cut_metrics(output / "metrics.jsonl", beginning.progress.step, beginning.progress.evaluated_at);
    metrics.emplace(output / "metrics.jsonl", resumes ? ExistingMetrics::keep : ExistingMetrics::replace);
  });
  return metrics;
}

base::Path weights_folder(const base::Path& output) { return output / "hf"; }

std::string write_weights(const base::Path& checkpoint, const base::Path& output, comm::Communicator& ranks) {
  try {
    static_cast<void>(checkpoint::write_huggingface(checkpoint, weights_folder(output),
                                                    {.existing = checkpoint::ExistingFolder::replace}, ranks));
  } catch (const comm::AgreedError& error) {
    return fmt::format("the weights could not be written for HuggingFace; tessera-convert does it from {}: {}",
                       checkpoint.string(), error.what());
  }
  return {};
}

}  // namespace tessera::train
