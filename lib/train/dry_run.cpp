#include "train/dry_run.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/table.h"
#include "config/dump.h"
#include "data/dataset.h"
#include "train/assemble.h"
#include "train/device_choice.h"

namespace tessera::train {

namespace {

std::string describe_program(const program::Program& program) {
  std::string text;
  std::size_t line = 0;
  for (const auto& instruction : program.instructions)
    text += fmt::format("{:5}  {}\n", line++, program::describe(program, instruction));
  return text;
}

std::string describe_memory(const program::MemoryPlan& plan) {
  std::string text;
  for (const auto& purpose : plan.purposes)
    text +=
        fmt::format("  {:<24} {:>12}\n", purpose.name, base::format_bytes(static_cast<std::uint64_t>(purpose.bytes)));
  text += fmt::format("  {:<24} {:>12}\n", "all", base::format_bytes(static_cast<std::uint64_t>(plan.total())));
  return text;
}

}  // namespace

std::string dry_run(const config::Settings& settings, std::int64_t world, std::int64_t rank) {
  base::require(rank >= 0 && rank < world, "--rank {} is not one of {} ranks; give 0 to {}", rank, world, world - 1);
  const auto blueprint = make_blueprint(settings, world, planned_place(settings.train));
  const auto training = make_dataset(blueprint, Split::training);
  const auto evaluation = make_dataset(blueprint, Split::evaluation);
  const auto program = make_program(blueprint, program::StepKind::train, blueprint.global_batch);
  const auto memory = make_memory_plan(blueprint, rank, program);
  const auto& architecture = blueprint.architecture;

  std::string text = "# settings\n" + config::dump_settings(blueprint.settings);
  text += fmt::format("\n# groups ({} ranks)\n{}", world, layout::describe_groups(blueprint.layout, rank));
  text += fmt::format("\n# parameters of rank {} ({} total, {} active per token)\n", rank,
                      base::format_count(architecture.total_parameters()),
                      base::format_count(architecture.active_parameters()));
  text += plan::describe_placements(blueprint.placements, blueprint.layout, rank);
  text += fmt::format("\n# program of one step ({} sequences in {} micro-steps, {} instructions)\n",
                      blueprint.global_batch, program.micro_steps, program.instructions.size());
  text += describe_program(program);
  text += fmt::format("\n# memory of rank {} by purpose\n{}", rank, describe_memory(memory));
  return text;
}

}  // namespace tessera::train
