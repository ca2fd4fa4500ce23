#include "train/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quantity.h"
#include "comm/agreement.h"
#include "config/fields.h"
#include "data/content_hash.h"
#include "train/assemble.h"
#include "train/device_choice.h"
#include "train/end_of_run.h"
#include "train/gpu_setup.h"
#include "train/hosts.h"
#include "train/output.h"
#include "train/report.h"
#include "train/resume.h"
#include "train/same_run.h"
#include "train/saves.h"
#include "train/signals.h"
#include "train/trace.h"
#include "train/trainer.h"

namespace tessera::train {

namespace {

// The first number of OMP_NUM_THREADS, or 0. Left alone, LibTorch would lower it to the number of cores.
std::int64_t threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  constexpr long most = 1 << 16;
  const long threads = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return threads > 0 && threads <= most ? threads : 0;
}

// train.threads, else what the user's environment says, else this rank's share of the cores.
int set_threads(std::int64_t asked, std::int64_t share) {
  const auto of_user = asked > 0 ? asked : threads_of_environment();
  at::set_num_threads(static_cast<int>(of_user > 0 ? of_user : share));
  return at::get_num_threads();
}

std::string describe_data(const data::Dataset& dataset) {
  return fmt::format("{}, {} windows of up to {} tokens", dataset.corpus().description(),
                     base::format_count(dataset.windows(0)), dataset.seq_len());
}

std::string_view precision_name(at::ScalarType compute) {
  return compute == at::kBFloat16 ? "bfloat16 (masters float32)" : compute == at::kDouble ? "float64" : "float32";
}

std::string describe_optimizer(const Blueprint& blueprint) {
  const auto& settings = blueprint.settings.train.optimizer;
  const auto word = [&](const char* path) { return config::value_text(blueprint.settings, path); };
  const auto warm_up =
      settings.lr_warmup_ratio > 0 ? fmt::format(", warm-up {:g} %", 100 * settings.lr_warmup_ratio) : "";
  return fmt::format("{}, lr {:g} ({}{}); {}", word("train.optimizer.type"), settings.lr,
                     word("train.optimizer.lr_decay_style"), warm_up, blueprint.decay.describe(settings.weight_decay));
}

std::string describe_layout(const layout::LayoutSizes& sizes) {
  auto text = fmt::format("dp_replicate {}, dp_shard {}; ", sizes.dp_replicate, sizes.dp_shard);
  std::vector<std::string> names;
  for (const auto& extra : sizes.extra)
    names.push_back(extra.size == 1 ? extra.name + " 1 (splits nothing)"
                                    : fmt::format("{} {} ({})", extra.name, extra.size,
                                                  extra.placement == layout::GridPlacement::outer ? "outer" : "inner"));
  return names.empty() ? text + "no named groups" : text + fmt::format("{}", fmt::join(names, ", "));
}

std::string describe_device(const DeviceChoice& device, int threads) {
  const auto on_host = fmt::format("{} {}", threads, threads == 1 ? "thread" : "threads");
  if (device.place == device::Place::cuda)
    return fmt::format("{} ({} on the CPU)", device::describe_gpu(device.gpu), on_host);
  return fmt::format("CPU ({}){}", on_host, device.reason.empty() ? "" : "; no GPU, since " + device.reason);
}

StartPage start_page(const Assembly& assembly, const data::Dataset& training, const data::Dataset* evaluation,
                     std::int64_t steps) {
  const auto& b = assembly.blueprint();
  const auto& train = b.settings.train;
  const auto micro_steps = b.micro_steps(b.global_batch);
  StartPage page;
  page.model = b.architecture.describe();
  page.total_parameters = b.architecture.total_parameters();
  page.active_parameters = b.architecture.active_parameters();
  page.data = describe_data(training);
  if (evaluation != nullptr) page.evaluation = describe_data(*evaluation);
  page.steps =
      fmt::format("{}; each has {} sequences of {} tokens, in {} micro-steps of up to {} sequences", steps,
                  b.global_batch, b.settings.data.max_seq_len, micro_steps, train.micro_batch_size * b.data_ranks());
  page.tokens_per_step = b.global_batch * b.settings.data.max_seq_len;
  page.optimizer = describe_optimizer(b);
  for (const auto& purpose : assembly.memory_plan().purposes)
    page.memory.emplace_back(purpose.name, static_cast<std::uint64_t>(purpose.bytes));
  page.precision = fmt::format("{}{}", precision_name(b.numbers.compute),
                               train.enable_full_determinism ? ", the same bits in each run" : "");
  page.ranks = b.layout.world();
  page.layout = describe_layout(b.layout.sizes());
  page.output = train.checkpoint.output_dir;
  page.checkpoints = describe(train.checkpoint);
  page.notes = b.notes;
  if (train.debug.only != config::OnlyHalf::none)
    page.notes.push_back(fmt::format("seconds of a step are those of its {} alone, which waits for the other half",
                                     config::value_text(b.settings, "train.debug.only")));
  if (b.architecture.config().moe_layers() > 0)
    page.notes.push_back(fmt::format("products of experts: {}", ops::name(assembly.model().expert_path())));
  return page;
}

// What a run is made of, read and found to fit together before anything is written.
struct Inputs {
  Blueprint blueprint;
  std::unique_ptr<data::Dataset> training, evaluation;
};

Inputs read_inputs(const config::Settings& settings, comm::Communicator& ranks, device::Place place) {
  std::optional<Blueprint> blueprint;
  std::unique_ptr<data::Dataset> training, evaluation;
  comm::agree_on(ranks, [&] {
    blueprint = make_blueprint(settings, ranks.size(), place);
    training = make_dataset(*blueprint, Split::training);
    evaluation = make_dataset(*blueprint, Split::evaluation);
  });
  require_same_run(ranks, *blueprint, *training, evaluation.get());
  return {std::move(*blueprint), std::move(training), std::move(evaluation)};
}

}  // namespace

base::ExitCode run(const config::Settings& given, comm::World& world, const StopSignals& signals) {
  auto& ranks = *world.communicator();
  const auto hosts = find_hosts(ranks, world.first_rank_of_host());
  const int threads = set_threads(given.train.threads, hosts.threads_per_rank);
  const auto device = take_device(given.train, hosts, ranks);
  auto settings = given;
  settings.train.precision = resolve_precision(given.train.precision, device.place);
  set_numerics(settings.train, device.place);
  auto inputs = read_inputs(settings, ranks, device.place);
  settings = inputs.blueprint.settings;
  const auto warnings = warnings_of(hosts, inputs.blueprint.layout, comm::numbers_of_ranks(ranks, threads));
  auto claim = claim_output(settings.train.checkpoint, ranks);
  auto beginning = find_beginning(inputs.blueprint, *inputs.training, inputs.evaluation.get(), ranks);
  require_same_weights(ranks, inputs.blueprint, beginning.stored.get());
  Assembly assembly(std::move(inputs.blueprint), world.communicator(), beginning.stored.get(),
                    make_gpu_world(device, settings.train, world));
  log_resume(beginning, assembly);
  beginning.stored.reset();

  const base::Path folder = settings.train.checkpoint.output_dir;
  auto output = open_output(settings, beginning, inputs.evaluation.get(), claim, ranks, hosts);
  auto start = beginning.progress;
  if (output.is_evaluated)
    start.evaluated_at = start.step;
  else if (start.evaluated_at == start.step)
    start.evaluated_at = -1;  // on other data, or told in another folder
  Report report(start.total_steps, settings.train.log.every, audience_of_log());
  auto page = start_page(assembly, *inputs.training, inputs.evaluation.get(), start.total_steps);
  page.device = describe_device(device, threads);
  if (world.size() > 1) {
    page.hosts = hosts.describe();
    page.backend = device.backend == config::Backend::nccl ? "NCCL" : "MPI";
  }
  report.start(page);
  for (const auto& warning : warnings) base::log_warning("{}", warning);
  Saves saves(assembly, beginning.model, folder, beginning.saved_in(folder, ranks));
  auto* metrics = output.metrics ? &*output.metrics : nullptr;
  std::optional<data::ContentHash> content;
  if (ranks.rank() == 0 && !inputs.training->corpus().fingerprint().covers_all())
    content.emplace(inputs.training->corpus());
  Trainer trainer({.assembly = assembly,
                   .training = *inputs.training,
                   .evaluation = inputs.evaluation.get(),
                   .signals = signals,
                   .metrics = metrics,
                   .report = report,
                   .start = start,
                   .saves = &saves,
                   .evaluated = output.evaluation,
                   .content = content ? &*content : nullptr});
  double origin = 0;
  if (!settings.train.log.trace.empty()) {
    ranks.barrier();
    origin = base::seconds_now();
    assembly.executor().timeline().record(trace_events(world.size()));
  }
  const auto ending = trainer.train();
  return end_run(assembly, ending, {folder, metrics, saves, report, origin});
}

}  // namespace tessera::train
