// If this failed, a checkpoint of a run on GPUs would hold other numbers than its shards, or could not be resumed
// elsewhere. Runs on the stand-in for a GPU.
#include "checkpoint/restore.h"
#include "checkpoint/saver.h"
#include "checkpoint/stored_checkpoint.h"
#include "placed_run.h"
#include "support/catch.h"
#include "support/temp_folder.h"
#include "train/replica_check.h"

namespace tessera::test {
namespace {

using device::Place;

// Masters and moments, on the CPU.
TensorsByName states_of(train::Assembly& assembly) {
  TensorsByName states;
  for (const auto& p : assembly.store().parameters()) states[p.placement.parameter.fqn] = p.master.cpu().clone();
  for (const auto& moment : assembly.optimizer().state())
    states[moment.fqn + "/" + moment.name] = moment.tensor.cpu().clone();
  return states;
}

class SavedRun {
 public:
  // Trains two steps at `place` and saves; in the background the next step runs meanwhile.
  SavedRun(const SmallRun& files, Place place, checkpoint::SaveMode mode)
      : run_(files.settings({"--train.precision", "float32"}), place) {
    static_cast<void>(run_.train(2));
    auto& assembly = run_.start().assembly();
    saved_ = states_of(assembly);
    checkpoint::Saver saver({.output = folder_.path()}, assembly.store(), assembly.optimizer(),
                            assembly.blueprint().layout, assembly.world());
    saver.start({{.step = 2, .optimizer_steps = assembly.optimizer().steps(), .total_steps = 9}, "", "{}", "{}"}, mode);
    if (mode == checkpoint::SaveMode::background) static_cast<void>(run_.train(1));
    const auto result = saver.finish();
    REQUIRE(result.has_value());
    REQUIRE_FALSE(result->failure.has_value());
    path_ = result->folder;
  }
  [[nodiscard]] const TensorsByName& saved() const { return saved_; }
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  TempFolder folder_;
  PlacedRun run_;
  TensorsByName saved_;
  base::Path path_;
};

TensorsByName restored_at(const SmallRun& files, Place place, const base::Path& path) {
  checkpoint::StoredCheckpoint stored(path);
  Start start(train::make_blueprint(files.settings({"--train.precision", "float32"}), 1, place),
              comm::solo_communicator(), &stored);
  return states_of(start.assembly());
}

TEST_CASE("what a run on a GPU saves is what its shards held, wherever it is loaded, while it trains on too") {
  const SmallRun files;
  for (const auto mode : {checkpoint::SaveMode::wait, checkpoint::SaveMode::background}) {
    const SavedRun on_gpu(files, Place::cuda, mode);
    CHECK(same_bits(restored_at(files, Place::cuda, on_gpu.path()), on_gpu.saved()));
    CHECK(same_bits(restored_at(files, Place::cpu, on_gpu.path()), on_gpu.saved()));
  }
  const SavedRun on_cpu(files, Place::cpu, checkpoint::SaveMode::wait);
  CHECK(same_bits(restored_at(files, Place::cuda, on_cpu.path()), on_cpu.saved()));
}

TEST_CASE("hashes of shards on a GPU are those of the same numbers on the CPU") {
  const SmallRun files;
  const auto hashes = [&](Place place) {
    PlacedRun run(files.settings({"--train.precision", "float32"}), place);
    std::vector<std::uint64_t> list;
    for (const auto& state : train::hash_states(run.start().assembly().store(), run.start().assembly().optimizer()))
      list.push_back(state.hash);
    return list;
  };
  CHECK(hashes(Place::cuda) == hashes(Place::cpu));
}

}  // namespace
}  // namespace tessera::test
