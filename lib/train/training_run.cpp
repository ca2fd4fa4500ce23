#include "train/training_run.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "data/content_hash.h"
#include "train/assemble.h"
#include "train/device_choice.h"
#include "train/end_of_run.h"
#include "train/gpu_setup.h"
#include "train/hosts.h"
#include "train/inputs.h"
#include "train/output.h"
#include "train/report.h"
#include "train/resume.h"
#include "train/same_run.h"
#include "train/saves.h"
#include "train/start_page.h"
#include "train/threads.h"
#include "train/trace.h"
#include "train/trainer.h"

namespace tessera::train {
namespace {

checkpoint::Progress progress_at_start(const Beginning& beginning, const Output& output) {
  auto progress = beginning.progress;
  if (output.is_evaluated)
    progress.evaluated_at = progress.step;
  else if (progress.evaluated_at == progress.step)
    progress.evaluated_at = -1;  // on other data, or told in another folder
  return progress;
}

// Rank 0's, if the fingerprint leaves bytes of the data out; else null.
std::unique_ptr<data::ContentHash> hash_in_background(const data::Corpus& corpus, const comm::Communicator& ranks) {
  if (ranks.rank() != 0 || corpus.fingerprint().covers_all()) return nullptr;
  return std::make_unique<data::ContentHash>(corpus);
}

// Lets the timeline record if train.log.trace asks for one. Returns the moment that all ranks share, in seconds.
double start_timeline(Assembly& assembly) {
  auto& ranks = assembly.world();
  if (assembly.blueprint().settings.train.log.trace.empty()) return 0;
  ranks.barrier();
  const double origin = base::seconds_now();
  assembly.executor().timeline().record(trace_events(ranks.size()));
  return origin;
}

}  // namespace

base::ExitCode run(const config::Settings& given, comm::World& world, const StopSignals& signals) {
  auto& ranks = *world.communicator();
  const auto hosts = find_hosts(ranks, world.first_rank_of_host());
  const int threads = set_threads(given.train.threads, hosts.threads_per_rank);
  const auto device = take_device(given.train, hosts, ranks);
  set_numerics(given.train, device.place);

  auto inputs = read_inputs(given, ranks, device.place);
  const auto settings = inputs.blueprint.settings;
  const auto& training = *inputs.training;
  const auto* evaluation = inputs.evaluation.get();
  const auto warnings = warnings_of(hosts, inputs.blueprint.layout, comm::numbers_of_ranks(ranks, threads));
  auto claim = claim_output(settings.train.checkpoint, ranks);
  auto beginning = find_beginning(inputs.blueprint, training, evaluation, ranks);
  require_same_weights(ranks, inputs.blueprint, beginning.stored.get());

  Assembly assembly(std::move(inputs.blueprint), world.communicator(), beginning.stored.get(),
                    make_gpu_world(device, settings.train, world));
  log_resume(beginning, assembly);
  beginning.stored.reset();

  const base::Path folder = settings.train.checkpoint.output_dir;
  auto output = open_output(settings, beginning, evaluation, claim, ranks, hosts);
  auto* metrics = output.metrics ? &*output.metrics : nullptr;
  const auto start = progress_at_start(beginning, output);
  Report report(start.total_steps, settings.train.log.every, audience_of_log());
  report.start(start_page({assembly, training, evaluation, start.total_steps, hosts, device, threads}));
  for (const auto& warning : warnings) base::log_warning("{}", warning);

  Saves saves(assembly, beginning.model, folder, beginning.saved_in(folder, ranks));
  const auto content = hash_in_background(training.corpus(), ranks);
  Trainer trainer({.assembly = assembly,
                   .training = training,
                   .evaluation = evaluation,
                   .signals = signals,
                   .metrics = metrics,
                   .report = report,
                   .start = start,
                   .saves = &saves,
                   .evaluated = output.evaluation,
                   .content = content.get()});
  const double origin = start_timeline(assembly);
  const auto ending = trainer.train();
  return end_run(assembly, ending, {folder, metrics, saves, report, origin});
}

}  // namespace tessera::train
