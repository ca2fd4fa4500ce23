#include "train/end_of_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "comm/agreement.h"
#include "train/signals.h"
#include "train/trace.h"
#include "train/try_outputs.h"
#include "train/weights.h"

namespace tessera::train {
namespace {

std::uint64_t peak_memory() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

// By group of several ranks.
std::vector<GroupTraffic> traffic_of(const mesh::Mesh& mesh) {
  std::vector<GroupTraffic> groups;
  for (const auto& [group, traffic] : mesh.traffic())
    if (traffic.bytes_sent > 0)
      groups.push_back({group, static_cast<std::uint64_t>(traffic.bytes_sent), traffic.seconds_under_way,
                        std::min(traffic.seconds_exposed, traffic.seconds_under_way)});
  return groups;
}

EndPage end_page(Assembly& assembly, const Ending& ending) {
  EndPage page{.reason = ending.reason,
               .steps = ending.steps,
               .skipped_steps = ending.skipped,
               .tokens = ending.tokens,
               .seconds = ending.seconds,
               .step_seconds = ending.step_seconds,
               .peak_memory = peak_memory()};
  for (const auto& [kind, entry] : assembly.executor().timeline().entries())
    page.seconds_by_kind.emplace_back(kind, entry.seconds);
  page.groups = traffic_of(assembly.mesh());
  if (ending.evaluation)
    page.results.push_back(ending.evaluation->tokens > 0
                               ? fmt::format("held-out cross entropy {:.4f}, perplexity {:.3f}",
                                             ending.evaluation->ce_loss, ending.evaluation->perplexity())
                               : "held-out cross entropy not measured: no token has a target");
  return page;
}

// What was written, for the last page, and what could not be.
class Writing {
 public:
  // `write` is collective over the world. What it throws on all ranks is kept.
  void attempt(const std::string& result, const std::function<void()>& write) {
    try {
      write();
      tell(result);
    } catch (const comm::AgreedError& error) {
      fail(error.what());
    }
  }
  void tell(std::string result) { results_.push_back(std::move(result)); }
  void fail(std::string why) { failures_.push_back(std::move(why)); }

  [[nodiscard]] const std::vector<std::string>& results() const { return results_; }
  void throw_failures() const {
    if (!failures_.empty())
      throw comm::AgreedError(base::ExitCode::rank_failed, fmt::format("{}", fmt::join(failures_, "\n")));
  }

 private:
  std::vector<std::string> results_, failures_;
};

void close_metrics(MetricsFile* metrics, const Assembly& assembly, const Ending& ending) {
  if (metrics == nullptr) return;
  if (const auto groups = traffic_of(assembly.mesh()); !groups.empty() && ending.steps_of_start > 0)
    metrics->write(ending.steps, ending.steps_of_start, groups);
  metrics->close();
}

}  // namespace

base::ExitCode end_run(Assembly& assembly, const Ending& ending, const RunOutputs& outputs) {
  auto& world = assembly.world();
  const auto& settings = assembly.blueprint().settings.train;
  Writing writing;
  if (const auto& failure = outputs.saves.failure()) writing.fail(fmt::format("the last save failed: {}", *failure));
  const auto& latest = outputs.saves.latest();
  if (latest) writing.tell("checkpoint: " + latest->folder.string());
  writing.attempt("metrics: " + (outputs.folder / metrics_name).string(),
                  [&] { comm::agree_on(world, [&] { close_metrics(outputs.metrics, assembly, ending); }); });
  if (!settings.log.trace.empty())
    writing.attempt("timeline: " + settings.log.trace, [&] {
      write_trace(settings.log.trace, assembly.executor().timeline().events(), outputs.origin, world);
    });
  if (settings.checkpoint.save_hf_weights && ending.signal == 0 && latest && latest->step == ending.steps)
    writing.attempt("weights: " + weights_folder(outputs.folder).string(),
                    [&] { write_weights(latest->folder, outputs.folder, world); });
  auto page = end_page(assembly, ending);
  page.results.insert(page.results.end(), writing.results().begin(), writing.results().end());
  outputs.report.end(page);
  writing.throw_failures();
  return ending.signal == 0 ? base::ExitCode::done : exit_code_after(ending.signal);
}

}  // namespace tessera::train
