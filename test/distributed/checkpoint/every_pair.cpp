#include "every_pair.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/restore.h"
#include "checkpoint/saver.h"
#include "checkpoint/states.h"
#include "shared_folder.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "unsynced_files.h"

namespace tessera::test {
namespace {

// The content of `box` of a state after save number `save`: whole numbers below 2^24, exact in every type.
at::Tensor formula(const base::ParameterSpec& parameter, const std::string& state, std::size_t save,
                   const layout::Box& box, at::ScalarType type) {
  const auto seed = base::xxh3(fmt::format("{}/{} {}", state, parameter.fqn, save));
  auto values = at::empty(box.shape(), at::kDouble);
  auto* out = values.data_ptr<double>();
  std::vector<std::int64_t> index;
  for (const auto& block : box.dims) index.push_back(block.begin);
  for (std::int64_t k = 0; k < values.numel(); ++k) {
    std::uint64_t flat = 0;
    for (std::size_t d = 0; d < index.size(); ++d)
      flat = flat * static_cast<std::uint64_t>(parameter.shape[d]) + static_cast<std::uint64_t>(index[d]);
    out[k] = static_cast<double>(((seed + flat * 0x9e3779b97f4a7c15ULL) >> 20) & 0xffffff);
    for (std::size_t d = index.size(); d-- > 0 && ++index[d] == box.dims[d].end;) index[d] = box.dims[d].begin;
  }
  return values.to(type);
}

// Returns the number of states on this rank that differ from what save `save` wrote.
std::int64_t wrong_states(train::Assembly& assembly, std::size_t save) {
  const auto states = checkpoint::shard_states(assembly.store(), assembly.optimizer());
  std::int64_t wrong = 0;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = assembly.store().parameters()[k];
    for (const auto& [name, tensor] : states[k])
      wrong += at::equal(tensor, formula(p.placement.parameter, name, save, p.box, tensor.scalar_type())) ? 0 : 1;
  }
  return wrong;
}

void fill(train::Assembly& assembly, std::size_t save) {
  const auto states = checkpoint::shard_states(assembly.store(), assembly.optimizer());
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = assembly.store().parameters()[k];
    for (const auto& [name, tensor] : states[k])
      tensor.copy_(formula(p.placement.parameter, name, save, p.box, tensor.scalar_type()));
  }
}

void fill_with_nan(train::Assembly& assembly) {
  for (const auto& list : checkpoint::shard_states(assembly.store(), assembly.optimizer()))
    for (const auto& state : list) state.tensor.fill_(std::nan(""));
}

std::filesystem::path output_of(const SharedFolder& folder, std::size_t save) {
  return folder.path() / std::to_string(save);
}

checkpoint::SavedFacts facts_of(std::size_t save) {
  checkpoint::SavedFacts facts;
  facts.progress.step = facts.progress.total_steps = facts.progress.optimizer_steps =
      static_cast<std::int64_t>(save) + 1;
  facts.settings = facts.model = "{}";
  return facts;
}

// Every other one in the background.
bool save(train::Assembly& assembly, const SharedFolder& folder, std::size_t number, base::FileSystem& files) {
  const auto output = output_of(folder, number);
  if (assembly.rank() == 0) files.make_folder(output);
  assembly.world().barrier();
  fill(assembly, number);
  checkpoint::Saver saver({.output = output}, assembly.store(), assembly.optimizer(), assembly.blueprint().layout,
                          assembly.world(), files);
  saver.start(facts_of(number), number % 2 == 0 ? checkpoint::SaveMode::wait : checkpoint::SaveMode::background);
  const auto result = saver.finish();
  return result.has_value() && !result->failure.has_value();
}

// Returns the faults of a load that this rank sees; empty if there are none.
std::string fault_of_load(train::Assembly& assembly, const SharedFolder& folder, std::size_t number,
                          const Damage& damage) {
  fill_with_nan(assembly);
  checkpoint::StoredCheckpoint stored(checkpoint::find_checkpoint(output_of(folder, number)));
  checkpoint::require_same_parameters(stored, assembly.blueprint().architecture.parameters());
  auto restored =
      checkpoint::restore(stored, assembly.store(), assembly.optimizer(), assembly.rank(), assembly.world().size());
  auto verified = static_cast<std::int64_t>(restored.bytes_verified);
  assembly.world().all_reduce(&verified, 1, comm::ElementType::int64, comm::ReduceOperation::add, nullptr)->wait();
  if (damage) damage(assembly);
  if (const auto wrong = wrong_states(assembly, number); wrong > 0) return fmt::format("{} states differ", wrong);
  std::uint64_t held = 0;
  for (const auto& list : checkpoint::shard_states(assembly.store(), assembly.optimizer()))
    for (const auto& state : list) held += state.tensor.nbytes();
  if (restored.bytes_needed != held || restored.bytes_read != held)
    return fmt::format("{} bytes held, {} needed, {} read", held, restored.bytes_needed, restored.bytes_read);
  const auto& manifest = stored.manifest();
  if (assembly.optimizer().steps() != manifest.progress.optimizer_steps ||
      manifest.progress != facts_of(number).progress || !restored.absent.empty())
    return "other facts";
  std::int64_t all = 0;
  for (const auto& tensor : manifest.tensors)
    all += base::elements(tensor.parameter) * std::ssize(tensor.states) *
           static_cast<std::int64_t>(checkpoint::bits(tensor.type) / 8);
  return verified == all ? "" : fmt::format("{} bytes verified of {}", verified, all);
}

// Every parameter with every row, every expert, read whole by one rank alone.
std::string fault_of_whole(const SharedFolder& folder, std::size_t number,
                           const std::vector<base::ParameterSpec>& parameters) {
  checkpoint::StoredCheckpoint stored(checkpoint::find_checkpoint(output_of(folder, number)));
  for (const auto& parameter : parameters) {
    const auto box = layout::whole_box(parameter.shape);
    for (const auto& state : stored.find(parameter.fqn)->states)
      if (!at::equal(checkpoint::read_box(stored.parts(parameter.fqn, state, box), box, at::kDouble),
                     formula(parameter, state, number, box, at::kDouble)))
        return state + " of " + parameter.fqn;
  }
  return "";
}

}  // namespace

std::vector<std::string> faults_of_every_pair(const std::vector<CheckpointLayout>& layouts, const Words& words,
                                              const Damage& damage) {
  const SmallRun run;
  const SharedFolder folder;
  UnsyncedFiles files;
  const auto parameters = blueprint_of(run.settings(words), 1).architecture.parameters();
  std::vector<std::unique_ptr<Start>> starts;
  std::vector<std::string> faults;
  for (std::size_t k = 0; k < layouts.size(); ++k) {
    starts.push_back(start_on(layouts[k].ranks, run.settings(joined(words, layouts[k].words))));
    if (starts.back() != nullptr && !save(starts.back()->assembly(), folder, k, files))
      faults.push_back("no save in " + layouts[k].describe());
  }
  world().communicator()->barrier();
  for (std::size_t saved = 0; saved < layouts.size(); ++saved) {
    const auto add = [&](const std::string& reader, const std::string& fault) {
      if (!fault.empty()) faults.push_back("saved in " + layouts[saved].describe() + ", " + reader + ": " + fault);
    };
    if (world().rank() == static_cast<std::int64_t>(saved) % world().size())
      add("read whole", fault_of_whole(folder, saved, parameters));
    for (std::size_t loaded = 0; loaded < layouts.size(); ++loaded)
      if (starts[loaded] != nullptr)
        add("loaded in " + layouts[loaded].describe(),
            fault_of_load(starts[loaded]->assembly(), folder, saved, damage));
  }
  return faults;
}

void check_every_pair(const std::vector<CheckpointLayout>& layouts, const Words& words) {
  const auto faults = faults_of_every_pair(layouts, words);
  for (const auto& fault : faults) UNSCOPED_INFO(fault);
  CHECK_ON_ALL(faults.empty());
}

}  // namespace tessera::test
