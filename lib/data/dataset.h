// Cuts a corpus into windows and orders them, independently of ranks and micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "config/settings.h"
#include "data/corpus.h"
#include "data/packing.h"
#include "data/window.h"

namespace tessera::data {

enum class Order {
  shuffled,  // another permutation in each epoch: for training
  file,      // the order of the files: for evaluation
};

struct DatasetOptions {
  CorpusOptions corpus;
  std::int64_t seq_len = 2048;  // most tokens of a window
  config::Documents documents = config::Documents::joined;
  Order order = Order::shuffled;
  std::uint64_t seed = 42;
};

// Makes windows in one of two ways:
//
//   joined    Concatenates all documents and cuts windows of seq_len + 1 tokens at a stride of seq_len, so that each
//             token but the first is a target once. Positions and attention run across document borders. Leaves out a
//             tail shorter than a window. An epoch is a permutation of the windows.
//   separate  Permutes the documents and packs them (Packing). Positions restart at each document or piece of one, and
//             neither attention nor labels cross these borders. Each document occurs once in an epoch; windows may be
//             shorter than seq_len.
//
// The i-th window of an epoch is a function of (corpus, options, epoch, i). Thread-safe.
class Dataset {
 public:
  // Logs the size of the corpus and the documents mode. Throws Error(bad_input) if there is no window.
  explicit Dataset(const DatasetOptions& options);

  // The number of windows of an epoch, at least 1. `separate`: epochs may differ, and the first call for an epoch looks
  // at every document.
  [[nodiscard]] std::int64_t windows(std::int64_t epoch) const;
  // The fewest and the most windows that an epoch can have; equal if all epochs have the same number.
  struct Bounds {
    std::int64_t least = 0, most = 0;
  };
  [[nodiscard]] Bounds window_bounds() const;
  // Returns a function that equals windows(epoch), for many epochs of `separate`: it keeps 8 bytes per document instead
  // of packings, and takes some 20 ns per document and call. The dataset must outlive it.
  [[nodiscard]] std::function<std::int64_t(std::int64_t epoch)> window_counter() const;
  // Reads a window. Precondition: 0 <= index < windows(epoch). Throws Error(bad_input) for ids outside the vocabulary.
  [[nodiscard]] Window window(std::int64_t epoch, std::int64_t index) const;

  [[nodiscard]] const Corpus& corpus() const { return corpus_; }
  [[nodiscard]] std::int64_t seq_len() const { return options_.seq_len; }

 private:
  [[nodiscard]] std::int64_t joined_windows() const;
  [[nodiscard]] Window joined_window(std::int64_t number) const;
  [[nodiscard]] Window packed_window(const std::vector<Piece>& pieces) const;
  [[nodiscard]] base::Permutation permutation(std::int64_t count, std::int64_t epoch) const;
  [[nodiscard]] std::function<std::int64_t(std::int64_t)> order(std::int64_t count, std::int64_t epoch) const;
  [[nodiscard]] std::shared_ptr<const Packing> packing(std::int64_t epoch) const;
  void require_windows() const;
  void log_summary() const;

  DatasetOptions options_;
  Corpus corpus_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, std::shared_ptr<const Packing>>> packings_;  // the last two epochs used
};

}  // namespace tessera::data
