#include "train/same_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "architecture/family.h"
#include "base/hash.h"
#include "checkpoint/huggingface.h"
#include "comm/agreement.h"
#include "comm/same_on_all.h"
#include "config/dump.h"
#include "program/program.h"

namespace tessera::train {
namespace {

using Facts = std::vector<comm::Fact>;

// A fact for each number, text and flag: {"a": {"b": [1, 2]}} becomes <before>a.b.0 and <before>a.b.1.
void add_json(const std::string& before, const std::string& json, Facts& facts) {
  const auto flat = nlohmann::json::parse(json).flatten();
  for (const auto& [pointer, value] : flat.items()) {
    auto path = pointer.substr(1);
    std::replace(path.begin(), path.end(), '/', '.');
    facts.push_back({before + path, value.dump()});
  }
}

void add_plan(const plan::ParallelPlan& plan, Facts& facts) {
  for (const auto& [name, entries] : plan.patterns)
    for (std::size_t k = 0; k < entries.size(); ++k)
      facts.push_back({fmt::format("plan.{}.{}", name, k), entries[k].pattern});
}

// What follows from the facts before it, or the programs of the ranks are not of one build.
void add_step(const Blueprint& blueprint, Facts& facts) {
  base::Xxh3Stream placements, program;
  for (const auto& p : blueprint.placements)
    placements.update(fmt::format("{} {} {}\n", p.parameter.fqn, fmt::join(p.parameter.shape, " "), p.extra));
  facts.push_back({"the placement of the parameters (hash)", base::hex(placements.digest())});
  const auto step = make_program(blueprint, program::StepKind::train, blueprint.global_batch);
  for (const auto& line : program::describe(step)) program.update(line + "\n");
  facts.push_back({"the number of instructions of a step", fmt::format("{}", step.instructions.size())});
  facts.push_back({"the program of a step (hash)", base::hex(program.digest())});
}

void add_data(const data::Dataset& dataset, Facts& facts) {
  const auto& corpus = dataset.corpus();
  const auto add = [&](const char* what, std::int64_t count) {
    facts.push_back({fmt::format("the number of {} of {}", what, corpus.setting()), fmt::format("{}", count)});
  };
  add("documents", corpus.documents());
  add("tokens", corpus.tokens());
  add("windows", dataset.windows(0));
  facts.push_back({fmt::format("the content of {} (hash)", corpus.setting()), base::hex(corpus.fingerprint().value())});
}

}  // namespace

void require_same_run(comm::Communicator& world, const Blueprint& blueprint, const data::Dataset& training,
                      const data::Dataset* evaluation) {
  if (world.size() == 1) return;
  Facts facts;
  comm::agree_on(world, [&] {
    add_json("", config::dump_settings(blueprint.settings), facts);
    add_json("config.json: ", architecture::to_config_json(blueprint.architecture.config()), facts);
    add_plan(blueprint.plan, facts);
    add_data(training, facts);
    if (evaluation != nullptr) add_data(*evaluation, facts);
    add_step(blueprint, facts);
  });
  comm::require_same_on_all(world, facts);
}

void require_same_weights(comm::Communicator& world, const Blueprint& blueprint,
                          const checkpoint::StoredCheckpoint* stored) {
  const auto& source = blueprint.settings.model.model_path;
  if (world.size() == 1 || (stored == nullptr && source.empty())) return;
  Facts facts;
  comm::agree_on(world, [&] {
    if (stored != nullptr)
      facts.push_back({fmt::format("the manifest of {} (hash)", stored->folder().string()),
                       base::hex(base::xxh3(checkpoint::to_text(stored->manifest())))});
    else
      for (const auto& [file, hash] : checkpoint::fingerprints_of_huggingface(source))
        facts.push_back({fmt::format("{} (hash)", file.string()), base::hex(hash)});
  });
  comm::require_same_on_all(world, facts);
}

}  // namespace tessera::train
