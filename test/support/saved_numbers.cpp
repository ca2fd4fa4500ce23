#include "support/saved_numbers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/eq.h>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/stored_checkpoint.h"

namespace tessera::test {

void fill_with(train::Assembly& assembly, double mark) {
  for (const auto& p : assembly.store().parameters()) p.master.fill_(mark);
  for (const auto& state : assembly.optimizer().state()) state.tensor.fill_(mark);
}

checkpoint::SavedFacts facts_of_step(std::int64_t step) {
  checkpoint::SavedFacts facts{.progress = {}, .layout = "test", .settings = "{}", .model = "{}"};
  facts.progress.step = step;
  facts.progress.total_steps = 1000;
  return facts;
}

std::optional<Marked> latest_of(const base::Path& output) {
  const auto step = checkpoint::latest_step(output);
  if (!step) return std::nullopt;
  checkpoint::StoredCheckpoint stored(checkpoint::checkpoint_folder(output, *step));
  base::require(stored.verify(0, 1) > 0, "nothing was verified");
  base::require(stored.manifest().progress.step == *step, "the manifest is of another step");
  std::optional<double> mark;
  for (const auto& tensor : stored.manifest().tensors)
    for (const auto& state : tensor.states) {
      layout::Box whole;
      for (const auto size : tensor.parameter.shape) whole.dims.push_back({0, size});
      const auto values =
          checkpoint::read_box(stored.parts(tensor.parameter.fqn, state, whole), whole, at::kDouble).flatten();
      if (!mark) mark = values[0].item<double>();
      base::require(values.eq(*mark).all().item<bool>(), "{} is of two saves", tensor.parameter.fqn);
    }
  return Marked{*step, mark.value()};
}

}  // namespace tessera::test
