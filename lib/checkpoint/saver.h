// Saves checkpoints, in the background of training or while training waits.
//
// A save has two parts. Each rank writes its file into the unfinished folder and makes it durable. Once all ranks have,
// rank 0 writes the manifest, gives the folder its name, moves `latest` and removes outdated checkpoints. In the
// background, both parts run on a thread of their own, which first copies the shards; the next update waits for that
// copy. Ranks communicate only in start, poll and finish, between steps. A save that fails on any rank fails on all and
// leaves the latest checkpoint unchanged; the failure is in the result, not an exception.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/companions.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/states.h"
#include "comm/agreement.h"
#include "comm/communicator.h"

namespace tessera::checkpoint {

struct SaverOptions {
  base::Path output;           // folder of the checkpoints; must exist
  std::int64_t keep_last = 0;  // see outdated() in folder.h
  std::int64_t keep_every = 0;
};

// The content of a checkpoint besides its tensors.
struct SavedFacts {
  Progress progress;
  std::string layout, settings, model;                // as in Manifest
  std::shared_ptr<const Companions> companions = {};  // rank 0's; may be null
};

enum class SaveMode : std::uint8_t { wait, background };

struct SaveResult {
  std::int64_t step = 0;
  base::Path folder;
  std::uint64_t bytes = 0;             // of all files; known to rank 0
  double seconds = 0;                  // from start to the end of the save
  double seconds_waited = 0;           // part of them in which this rank did not train
  std::vector<std::string> notes;      // on rank 0: folders that were moved aside or could not be removed
  std::optional<std::string> failure;  // the same on every rank
};

// start, poll and finish are collective over `world`. All references must outlive the saver.
class Saver {
 public:
  Saver(SaverOptions options, const fsdp::ParameterStore& store, optim::Optimizer& optimizer,
        const layout::Layout& layout, comm::Communicator& world, base::FileSystem& files = base::posix_file_system());
  // Abandons a save under way: waits for the current write of its thread and leaves the folder unfinished.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Returns whether a save is under way; the same on every rank.
  [[nodiscard]] bool is_under_way() const { return part_ != Part::none; }
  // Starts a save. With `background` it only makes the folder and copies shards from a GPU before it returns; after
  // that, only the optimizer's next step may write masters and moments, as it waits for the copy. Precondition: no save
  // is under way.
  void start(SavedFacts facts, SaveMode mode);
  // Returns the result of the save under way if it has ended.
  [[nodiscard]] std::optional<SaveResult> poll();
  // Waits for the save under way and returns its result; nothing if there is none.
  [[nodiscard]] std::optional<SaveResult> finish();

 private:
  enum class Part : std::uint8_t { none, files, commit };
  // A box of a state that this rank writes: `runs` runs of `run_bytes`, each `stride_bytes` after the one before.
  struct Outgoing {
    OutgoingTensor tensor;
    const std::byte* content = nullptr;  // in the shard, in the copy of it, or in `from_gpu`
    at::Tensor from_gpu = {};            // a copy on the host, if the shard is on a GPU
    std::int64_t runs = 0, run_bytes = 0, stride_bytes = 0;
    std::size_t hash_index = 0;  // among all states of all parameters
  };

  using States = std::vector<std::vector<ShardState>>;  // by parameter
  [[nodiscard]] std::vector<Outgoing> collect(const States& states) const;
  void copy(std::vector<Outgoing>& outgoing);
  [[nodiscard]] WrittenFile write_file(const std::vector<Outgoing>& outgoing) const;
  void begin(std::function<void()> part);
  [[nodiscard]] std::optional<SaveResult> advance();
  [[nodiscard]] std::optional<SaveResult> end(std::optional<std::string> failure);
  [[nodiscard]] Manifest make_manifest() const;
  void write_manifest_and_commit();

  SaverOptions options_;
  const fsdp::ParameterStore& store_;
  optim::Optimizer& optimizer_;
  const layout::Layout& layout_;
  comm::Communicator& world_;
  base::FileSystem& files_;
  std::unique_ptr<std::byte[]> copy_;  // kept from save to save

  Part part_ = Part::none;
  SaveMode mode_ = SaveMode::wait;
  SavedFacts facts_;
  SaveResult result_;
  double began_ = 0, seconds_at_update_ = 0;
  std::future<void> running_;
  std::atomic<bool> is_abandoned_ = false;
  WrittenFile written_;
  std::vector<WrittenFile> of_ranks_;  // rank 0's
};

}  // namespace tessera::checkpoint
