#include "train/start_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "config/fields.h"
#include "train/gpu_setup.h"
#include "train/saves.h"

namespace tessera::train {
namespace {

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

}  // namespace

StartPage start_page(const StartedRun& run) {
  const auto& b = run.assembly.blueprint();
  const auto& train = b.settings.train;
  const auto micro_steps = b.micro_steps(b.global_batch);
  StartPage page;
  page.model = b.architecture.describe();
  page.total_parameters = b.architecture.total_parameters();
  page.active_parameters = b.architecture.active_parameters();
  page.data = describe_data(run.training);
  if (run.evaluation != nullptr) page.evaluation = describe_data(*run.evaluation);
  page.steps =
      fmt::format("{}; each has {} sequences of {} tokens, in {} micro-steps of up to {} sequences", run.steps,
                  b.global_batch, b.settings.data.max_seq_len, micro_steps, train.micro_batch_size * b.data_ranks());
  page.tokens_per_step = b.global_batch * b.settings.data.max_seq_len;
  page.optimizer = describe_optimizer(b);
  for (const auto& purpose : run.assembly.memory_plan().purposes)
    page.memory.emplace_back(purpose.name, static_cast<std::uint64_t>(purpose.bytes));
  page.device = describe_device(run.device, run.threads);
  page.precision = fmt::format("{}{}", precision_name(b.numbers.compute),
                               train.enable_full_determinism ? ", the same bits in each run" : "");
  page.ranks = b.layout.world();
  if (page.ranks > 1) {
    page.hosts = run.hosts.describe();
    page.backend = run.device.backend == config::Backend::nccl ? "NCCL" : "MPI";
  }
  page.layout = describe_layout(b.layout.sizes());
  page.output = train.checkpoint.output_dir;
  page.checkpoints = describe(train.checkpoint);
  page.notes = b.notes;
  if (train.debug.only != config::OnlyHalf::none)
    page.notes.push_back(fmt::format("seconds of a step are those of its {} alone, which waits for the other half",
                                     config::value_text(b.settings, "train.debug.only")));
  if (b.architecture.config().moe_layers() > 0)
    page.notes.push_back(fmt::format("products of experts: {}", ops::name(run.assembly.model().expert_path())));
  if (b.numbers.place == device::Place::cuda)
    page.notes.push_back(fmt::format("attention: LibTorch's {}", attention_kernel(b.numbers.compute)));
  return page;
}

}  // namespace tessera::train
