// Saves checkpoints while training goes on or waits.
//
// A save has two parts. Each rank writes its file into the unfinished folder and makes it durable; then, if all have,
// rank 0 writes the manifest, gives the folder its name, moves `latest` and removes what is outdated. In the background
// both parts run on a thread of their own, from a copy of the shards that it makes before the next update; ranks speak
// with each other only in start, poll and finish, between steps. A save that fails on any rank fails on all, leaves the
// latest checkpoint as it was, and is a result, not an exception.
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
  base::Path output;           // folder of the checkpoints, there already
  std::int64_t keep_last = 0;  // see outdated() in folder.h
  std::int64_t keep_every = 0;
};

// What a checkpoint says beside its tensors.
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
  double seconds_waited = 0;           // of them, in which this rank did not train
  std::vector<std::string> notes;      // what went wrong after the checkpoint was whole; rank 0's
  std::optional<std::string> failure;  // the same on every rank
};

// start, poll and finish are collective over `world`. All references must outlive the saver.
class Saver {
 public:
  Saver(SaverOptions options, const fsdp::ParameterStore& store, optim::Optimizer& optimizer,
        const layout::Layout& layout, comm::Communicator& world, base::FileSystem& files = base::posix_file_system());
  // A save under way is left unfinished: what its thread writes at present is waited for, no more.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // The same on every rank.
  [[nodiscard]] bool is_under_way() const { return part_ != Part::none; }
  // With `background` it returns at once; until the optimizer's next step only that step may write masters and moments,
  // and it waits for the copy. Precondition: none is under way.
  void start(SavedFacts facts, SaveMode mode);
  // The result of the save under way, if it has ended since.
  [[nodiscard]] std::optional<SaveResult> poll();
  // Waits for the save under way. Nothing if there is none.
  [[nodiscard]] std::optional<SaveResult> finish();

 private:
  enum class Part : std::uint8_t { none, files, commit };
  // A box of a state that this rank writes, in runs of bytes.
  struct Outgoing {
    OutgoingTensor tensor;
    const std::byte* content = nullptr;  // in the shard, in the copy of it, or in `from_gpu`
    at::Tensor from_gpu = {};            // what is written, where the shard is on a GPU
    std::int64_t runs = 0, run_bytes = 0, stride_bytes = 0;
    std::size_t hash_index = 0;  // among all states of all parameters
  };

  using States = std::vector<std::vector<ShardState>>;  // of each parameter
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
