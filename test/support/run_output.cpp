#include "support/run_output.h"

#include <ATen/core/Tensor.h>

#include <cmath>

#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/stored_checkpoint.h"

namespace tessera::test {

Measured measured(const std::filesystem::path& output) {
  Measured lines;
  for (auto& line : read_metrics(output / "metrics.jsonl")) {
    if (line.kind == train::traffic_kind) continue;
    for (const char* time : {"step_s", "tokens_per_s", "eval/s"}) line.numbers.erase(time);
    auto& [numbers, load] = lines.emplace_back();
    for (const auto& [key, number] : line.numbers)
      numbers[key] = std::isnan(number) ? std::nullopt : std::optional(number);
    load = std::move(line.expert_load);
  }
  return lines;
}

Measured after(const Measured& lines, double step) {
  Measured later;
  for (const auto& line : lines)
    if (line.first.at("step") > step) later.push_back(line);
  return later;
}

std::set<std::string> checkpoints_in(const std::filesystem::path& output) {
  std::set<std::string> names;
  for (const auto& [step, folder] : checkpoint::list_checkpoints(output).whole) names.insert(folder.filename());
  return names;
}

TensorsByName states_of(const std::filesystem::path& checkpoint) {
  checkpoint::StoredCheckpoint stored(checkpoint);
  stored.verify(0, 1);
  TensorsByName states;
  for (const auto& tensor : stored.manifest().tensors) {
    const auto box = layout::whole_box(tensor.parameter.shape);
    const auto type = tensor.type == checkpoint::ElementType::F64 ? at::kDouble : at::kFloat;
    for (const auto& state : tensor.states)
      states[checkpoint::stored_name(state, tensor.parameter.fqn)] =
          checkpoint::read_box(stored.parts(tensor.parameter.fqn, state, box), box, type);
  }
  return states;
}

std::filesystem::path checkpoint_of(const std::filesystem::path& output, std::int64_t step) {
  return output / checkpoint::folder_name(step);
}

void copy_as_killed(const std::filesystem::path& output, std::int64_t step, const std::filesystem::path& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(output, to, std::filesystem::copy_options::recursive);
  for (const auto& [later, folder] : checkpoint::list_checkpoints(to).whole)
    if (later > step) std::filesystem::remove_all(folder);
  std::filesystem::remove(to / "latest");  // it was moved since
}

}  // namespace tessera::test
