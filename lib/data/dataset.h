// A corpus as windows in an order: what the loss of step k sees, defined without ranks or micro-batches.
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
  shuffled,  // another permutation each epoch: training
  file,      // as the files have it: evaluation
};

struct DatasetOptions {
  CorpusOptions corpus;
  std::int64_t seq_len = 2048;  // inputs of a window, at most
  config::Documents documents = config::Documents::joined;
  Order order = Order::shuffled;
  std::uint64_t seed = 42;
};

// Two ways to make windows:
//   joined    all documents one after another, cut into windows of seq_len + 1 tokens at a stride of seq_len, so that
//   each
//             token but the first is a target once. Positions run through, attention crosses document borders. A tail
//             shorter than a window is left out. An epoch is a permutation of the windows.
//   separate  documents are permuted and packed (Packing); positions restart, and neither attention nor a label crosses
//   a
//             border between documents or pieces. Each document once an epoch; windows may be shorter than seq_len.
// Which window is the i-th of an epoch is a function of (corpus, options, epoch, i). Thread-safe.
class Dataset {
 public:
  // Logs what was found and which documents mode is in use. Error(bad_input) if there is not a single window.
  explicit Dataset(const DatasetOptions& options);

  // At least 1. `separate`: may differ between epochs, and the first call of an epoch looks at every document.
  [[nodiscard]] std::int64_t windows(std::int64_t epoch) const;
  // The fewest and the most windows that an epoch can have. Equal where all have as many.
  struct Bounds {
    std::int64_t least = 0, most = 0;
  };
  [[nodiscard]] Bounds window_bounds() const;
  // windows(epoch) for many epochs of `separate`: it keeps no packing, but 8 bytes a document, and takes some 20 ns for
  // each. The dataset must outlive it.
  [[nodiscard]] std::function<std::int64_t(std::int64_t epoch)> window_counter() const;
  // Precondition: 0 <= index < windows(epoch). Error(bad_input) for ids outside the vocabulary.
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
