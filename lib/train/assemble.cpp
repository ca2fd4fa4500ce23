#include "train/assemble.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "architecture/family.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/reader.h"
#include "checkpoint/states.h"
#include "comm/agreement.h"
#include "layout/share.h"
#include "model/initial_values.h"
#include "program/order_checks.h"
#include "program/prefetch_depth.h"
#include "train/device_choice.h"

namespace tessera::train {

namespace {

constexpr std::size_t config_bytes = 16 << 20;  // more is no config.json

struct ReadModel {
  architecture::ModelConfig config;
  std::string text;  // of config.json
  std::vector<std::string> notes;
};

constexpr const char* norm_topk_prob = "norm_topk_prob";

ReadModel read_model(const config::ModelSettings& settings) {
  std::filesystem::path path = settings.config_path.empty() ? settings.model_path : settings.config_path;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  auto text = base::read_file(path, config_bytes);
  const auto document = base::parse_json(text, path.string(), base::JsonComments::refused);
  base::Problems problems;
  auto config = architecture::read_model_config(document, settings.overrides, problems);
  problems.throw_if_any("the model");
  std::vector<std::string> notes;
  if (config.moe_layers() > 0 && !settings.overrides.contains(norm_topk_prob) &&
      !document.value().contains(norm_topk_prob))
    notes.push_back(
        fmt::format("{} has no {}, so it is false, as in HuggingFace: a token's weights over its experts are not "
                    "divided by their sum",
                    path.filename().string(), norm_topk_prob));
  return {std::move(config), std::move(text), std::move(notes)};
}

plan::ParallelPlan read_plan(const std::string& path, base::Problems& problems) {
  if (path.empty()) return plan::built_in_plan();
  return plan::parse_plan(base::read_file(path, config_bytes), path, problems);
}

std::vector<std::vector<std::string>> expert_stacks(const architecture::Architecture& architecture) {
  std::vector<std::vector<std::string>> stacks;
  for (const auto& step : architecture.steps()) {
    if (step.uses.empty() || step.uses.front().use.kind != plan::UseKind::owned) continue;
    auto& stack = stacks.emplace_back();
    for (const auto& use : step.uses) stack.push_back(use.use.fqn);
  }
  return stacks;
}

device::Numbers numbers_of(config::Precision precision, device::Place place) {
  switch (resolve_precision(precision, place)) {
    case config::Precision::automatic: break;
    case config::Precision::float32: return {.place = place};
    case config::Precision::bfloat16: return {.compute = at::kBFloat16, .place = place};
    case config::Precision::float64:
      return {.master = at::kDouble, .compute = at::kDouble, .wide = at::kDouble, .place = place};
  }
  base::expect(false, "no such precision: {}", static_cast<int>(precision));
  return {};
}

std::vector<std::string> warnings_of(const architecture::ModelConfig& config) {
  std::vector<std::string> warnings;
  if (config.moe_layers() > 0 && config.num_experts_per_tok == 1 && config.norm_topk_prob)
    warnings.emplace_back(
        "num_experts_per_tok = 1 with norm_topk_prob = true: every weight is 1, so the cross entropy gives the router "
        "no gradient; only the balance and z-loss train it");
  return warnings;
}

std::int64_t optimizer_states(const config::OptimizerSettings& settings) {
  if (settings.type == config::OptimizerType::adamw) return 2;
  return settings.momentum != 0 ? 1 : 0;
}

// Elements of the boxes that a rank writes, each of which has a master and moments.
std::int64_t copied_elements(const Blueprint& blueprint, std::int64_t rank) {
  std::int64_t elements = 0;
  for (std::size_t k = 0; k < blueprint.placements.size(); ++k)
    elements += checkpoint::written_box(blueprint.placements[k], k, blueprint.layout, rank).elements();
  return elements;
}

plan::BindPolicy bind_policy(const config::Settings& settings) {
  return settings.train.debug.poison_freed ? plan::BindPolicy::always_copy : plan::BindPolicy::bind_where_possible;
}

fsdp::StoreOptions store_options(const Blueprint& blueprint, const program::MemoryPlan& memory) {
  return {.numbers = blueprint.numbers,
          .binding = bind_policy(blueprint.settings),
          .poison = blueprint.settings.train.debug.poison_freed ? device::Poison::fill_with_nan : device::Poison::off,
          .weight_buffers = memory.weight_buffers,
          .gradient_buffers = memory.gradient_buffers};
}

executor::Measured measured(config::OnlyHalf only) {
  switch (only) {
    case config::OnlyHalf::none: return executor::Measured::together;
    case config::OnlyHalf::compute: return executor::Measured::compute_alone;
    case config::OnlyHalf::communication: return executor::Measured::communication_alone;
  }
  base::expect(false, "no such half: {}", static_cast<int>(only));
  return {};
}

executor::ExecutorOptions executor_options(const Blueprint& blueprint, std::int64_t rank) {
  const auto& optimizer = blueprint.settings.train.optimizer;
  return {.max_grad_norm = optimizer.max_grad_norm,
          .norm_type = optimizer.norm_type,
          .balance = blueprint.settings.model.balance_loss,
          .balance_coef = blueprint.architecture.config().router_aux_loss_coef,
          .z_coef = blueprint.settings.model.router_z_loss_coef,
          .most_micro_steps = static_cast<std::int32_t>(blueprint.micro_steps(blueprint.global_batch)),
          .counts_sequences = layout::counts_sequences(blueprint.layout, rank),
          .numbers = blueprint.numbers,
          .measured = measured(blueprint.settings.train.debug.only),
          .checks_values = blueprint.settings.train.debug.poison_freed};
}

// The blocks of dim 0 of a parameter, by the ranks of the group that cuts it.
model::OwnedBlocks blocks_of_owners(const Blueprint& blueprint, const plan::Placement& placement, std::int64_t rank) {
  const auto entries = placement.parameter.shape.front();
  if (placement.extra.empty()) return {.bounds = {0, entries}};
  const auto owners = blueprint.layout.group_size(placement.owners());
  model::OwnedBlocks blocks{.bounds = {}, .own = blueprint.layout.position(rank, placement.owners())};
  for (std::int64_t k = 0; k < owners; ++k) blocks.bounds.push_back(layout::block_of(entries, owners, k).begin);
  blocks.bounds.push_back(entries);
  return blocks;
}

model::Owners owners_of(const Blueprint& blueprint, std::int64_t rank) {
  const plan::PlacementIndex placements(blueprint.placements);
  model::Owners owners;
  for (const auto& step : blueprint.architecture.steps())
    if (!step.owned.empty() && !owners.contains(step.owned))
      owners.emplace(step.owned, blocks_of_owners(blueprint, placements.of(step.owned), rank));
  return owners;
}

void fill_masters(const Blueprint& blueprint, fsdp::ParameterStore& store) {
  const auto& model = blueprint.settings.model;
  if (model.model_path.empty()) {
    for (auto& p : store.parameters()) {
      const auto on_host = p.master.is_cpu() ? p.master : at::empty_like(p.master, at::kCPU);
      const auto& parameter = p.placement.parameter;
      model::fill_initial_values(parameter, p.box, blueprint.architecture.initial_of(parameter.fqn),
                                 blueprint.architecture.config().initializer_range, blueprint.settings.train.seed,
                                 on_host);
      if (!p.master.is_cpu()) p.master.copy_(on_host);
    }
    return;
  }
  checkpoint::warn_of_shards_beside(model.model_path);
  const checkpoint::HuggingFaceCheckpoint stored(model.model_path, blueprint.architecture.parameters());
  for (auto& p : store.parameters())
    static_cast<void>(checkpoint::read_box(stored.parameter(p.placement.parameter.fqn), p.box, p.master));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Blueprint& blueprint, const fsdp::ParameterStore& store) {
  std::vector<optim::OptimizedShard> shards;
  for (const auto& p : store.parameters()) shards.push_back({p.placement.parameter.fqn, p.master, p.gradient});
  return std::make_unique<optim::Optimizer>(blueprint.settings.train.optimizer, blueprint.decay, std::move(shards));
}

program::MemoryFacts memory_facts(const Blueprint& blueprint) {
  const auto& settings = blueprint.settings;
  program::MemoryFacts facts;
  facts.sizes = {.compute_bytes = static_cast<std::int64_t>(at::elementSize(blueprint.numbers.compute)),
                 .master_bytes = static_cast<std::int64_t>(at::elementSize(blueprint.numbers.master)),
                 .same_type = blueprint.numbers.compute == blueprint.numbers.master};
  facts.binding = bind_policy(settings);
  facts.optimizer_states = optimizer_states(settings.train.optimizer);
  facts.sequences = settings.train.micro_batch_size;
  facts.tokens = facts.sequences * settings.data.max_seq_len;
  return facts;
}

// The same number on every rank.
void resolve_prefetch_depth(Blueprint& blueprint) {
  auto& depth = blueprint.settings.train.accelerator.fsdp_config.prefetch_depth;
  if (depth != config::automatic) return;
  depth = 1;
  auto options = program::builder_options(blueprint.settings);
  if (options.prefetch_depth == 0) return;
  options.micro_steps = static_cast<std::int32_t>(blueprint.micro_steps(blueprint.global_batch));
  depth = program::affordable_prefetch_depth(blueprint.architecture, blueprint.placements, blueprint.layout, options,
                                             memory_facts(blueprint));
  if (blueprint.layout.world() > 1)
    blueprint.notes.push_back(fmt::format(
        "prefetch_depth auto is {}: more would add over a tenth to a rank's memory, or there is no more to gather",
        depth));
}

}  // namespace

std::int64_t Blueprint::micro_steps(std::int64_t windows) const {
  return layout::micro_steps(windows, settings.train.micro_batch_size, data_ranks());
}

Blueprint make_blueprint(const config::Settings& settings, std::int64_t world, device::Place place) {
  auto read = read_model(settings.model);
  architecture::Architecture architecture(std::move(read.config), settings.model.balance_loss);
  auto notes = std::move(read.notes);
  for (auto& warning : warnings_of(architecture.config())) notes.push_back(std::move(warning));
  base::Problems problems;
  const auto positions = architecture.config().max_position_embeddings;
  if (settings.data.max_seq_len > positions)
    problems.add(
        "data.max_seq_len = {} is above max_position_embeddings = {} of the model; give at most {}, or override "
        "model.max_position_embeddings",
        settings.data.max_seq_len, positions, positions);
  const auto sizes = layout::resolve_sizes(settings.train.accelerator, world, problems);
  problems.throw_if_any("settings");
  layout::Layout layout(sizes);

  auto plan = read_plan(settings.train.accelerator.parallel_plan, problems);
  const auto masters = settings.train.accelerator.fsdp_config.fsdp_mode == config::FsdpMode::ddp
                           ? plan::MasterSharding::whole
                           : plan::MasterSharding::sharded;
  auto placements = plan::place(architecture.parameters(), plan, layout, masters, problems);
  problems.throw_if_any("the parallel plan");
  plan::check_owned_stacks(placements, expert_stacks(architecture), problems);
  const bool asks_for_groups = !settings.train.accelerator.parallel_plan.empty() || !sizes.extra.empty();
  if (const auto unused = plan::describe_unused_entries(plan, layout); asks_for_groups && !unused.empty())
    notes.push_back(unused);
  for (auto& line : plan::describe_whole_uses(placements, architecture.units())) notes.push_back(std::move(line));
  auto decay = optim::group_by_decay(architecture.parameters(), settings.train.optimizer.no_decay_params, problems);
  problems.throw_if_any("the settings");

  Blueprint blueprint{.settings = settings,
                      .architecture = std::move(architecture),
                      .config_text = std::move(read.text),
                      .layout = std::move(layout),
                      .plan = std::move(plan),
                      .placements = std::move(placements),
                      .numbers = numbers_of(settings.train.precision, place),
                      .decay = std::move(decay),
                      .notes = std::move(notes)};
  blueprint.global_batch = settings.train.global_batch_size > 0
                               ? settings.train.global_batch_size
                               : settings.train.micro_batch_size * blueprint.data_ranks();
  resolve_prefetch_depth(blueprint);
  return blueprint;
}

program::Program make_program(const Blueprint& blueprint, program::StepKind kind, std::int64_t windows) {
  auto options = program::builder_options(blueprint.settings);
  options.kind = kind;
  options.micro_steps = static_cast<std::int32_t>(blueprint.micro_steps(windows));
  auto program = program::build_program(blueprint.architecture, blueprint.placements, blueprint.layout, options);
  program::expect_sound(program);
  return program;
}

program::MemoryPlan make_memory_plan(const Blueprint& blueprint, std::int64_t rank, const program::Program& full_step) {
  const auto& settings = blueprint.settings;
  const auto facts = memory_facts(blueprint);
  const auto plan_of = [&](const program::Program& program) {
    return program::plan_memory(program, blueprint.architecture, blueprint.placements, blueprint.layout, rank, facts);
  };
  const auto training =
      program::larger_of(plan_of(full_step), plan_of(make_program(blueprint, program::StepKind::train, 1)));
  auto plan = program::larger_of(training,
                                 plan_of(make_program(blueprint, program::StepKind::evaluate, blueprint.global_batch)));
  if (settings.train.checkpoint.save_async)
    plan.purposes.push_back(
        {"copy for saves", static_cast<double>(copied_elements(blueprint, rank) * facts.sizes.master_bytes *
                                               (1 + facts.optimizer_states))});
  return plan;
}

std::unique_ptr<data::Dataset> make_dataset(const Blueprint& blueprint, Split split) {
  const auto& data = blueprint.settings.data;
  const auto& train = blueprint.settings.train;
  const bool trains = split == Split::training;
  const auto& paths = trains ? data.train_path : data.eval_path;
  if (paths.empty()) return nullptr;
  data::DatasetOptions options;
  options.corpus = {.setting = trains ? "data.train_path" : "data.eval_path",
                    .paths = paths,
                    .format = data.format,
                    .text_key = data.text_keys,
                    .on_bad_line = data.on_bad_line,
                    .vocabulary = blueprint.architecture.config().vocab_size,
                    .own_outputs = {train.checkpoint.output_dir}};
  if (!train.log.trace.empty()) options.corpus.own_outputs.push_back(train.log.trace);
  options.seq_len = data.max_seq_len;
  options.documents = data.documents;
  options.order = trains ? data::Order::shuffled : data::Order::file;
  options.seed = train.seed;
  return std::make_unique<data::Dataset>(options);
}

Assembly::Assembly(Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
                   checkpoint::StoredCheckpoint* stored, const std::shared_ptr<comm::Communicator>& gpu_world)
    : blueprint_(std::move(blueprint)),
      rank_(world->rank()),
      mesh_(blueprint_.layout, world, gpu_world),
      memory_plan_(make_memory_plan(blueprint_, rank_, program(program::StepKind::train, blueprint_.global_batch))) {
  store_ =
      std::make_unique<fsdp::ParameterStore>(blueprint_.architecture.units(), blueprint_.placements, blueprint_.layout,
                                             mesh_, rank_, store_options(blueprint_, memory_plan_));
  optimizer_ = make_optimizer(blueprint_, *store_);
  comm::agree_on(*world, [&] {
    if (stored == nullptr)
      fill_masters(blueprint_, *store_);
    else
      restored_ = checkpoint::restore(*stored, *store_, *optimizer_, rank_, world->size());
  });
  model_ = std::make_unique<model::Model>(blueprint_.architecture, blueprint_.numbers,
                                          blueprint_.settings.model.router_z_loss_coef, owners_of(blueprint_, rank_));
  executor_ = std::make_unique<executor::Executor>(blueprint_.architecture, *model_, *store_, optimizer_.get(), mesh_,
                                                   executor_options(blueprint_, rank_));
}

const program::Program& Assembly::program(program::StepKind kind, std::int64_t windows) {
  const auto micro_steps = kind == program::StepKind::skipped ? 0 : blueprint_.micro_steps(windows);
  const auto found = programs_.find({kind, micro_steps});
  if (found != programs_.end()) return found->second;
  return programs_.emplace(std::pair{kind, micro_steps}, make_program(blueprint_, kind, windows)).first->second;
}

}  // namespace tessera::train
