#include "data/dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/quantity.h"

namespace tessera::data {
namespace {

constexpr std::size_t packings_kept = 2;  // the loader reads ahead into the next epoch

std::int64_t count_valid(const std::vector<std::int64_t>& labels) {
  return std::count_if(labels.begin(), labels.end(), [](std::int64_t label) { return label != no_label; });
}

}  // namespace

Dataset::Dataset(const DatasetOptions& options) : options_(options), corpus_(options.corpus) {
  base::expect(options_.seq_len >= 1, "windows of {} tokens", options_.seq_len);
  require_windows();
  log_summary();
}

std::int64_t Dataset::joined_windows() const { return (corpus_.tokens() - 1) / options_.seq_len; }

void Dataset::require_windows() const {
  const bool separate = options_.documents == config::Documents::separate;
  const FileCounts& counts = corpus_.counts();
  base::require(
      (separate ? counts.targets : counts.labelled) > 0, "{}: 0 usable samples: {}; {} dropped because {}",
      corpus_.setting(), corpus_.samples_by_file(), counts.read - counts.empty - counts.faulty,
      separate ? "no document has a target (fewer than two tokens each, or all labels -100)" : "all labels are -100");
  if (separate) return;
  base::require(joined_windows() >= 1,
                "{}: 0 usable samples: {}; their {} tokens are fewer than one window of data.max_seq_len + 1 = {}; use "
                "more data or a smaller data.max_seq_len",
                corpus_.setting(), corpus_.samples_by_file(), corpus_.tokens(), options_.seq_len + 1);
}

void Dataset::log_summary() const {
  base::log_info("{}: {} ({})", corpus_.setting(), corpus_.description(), describe(corpus_.counts()));
  std::string text;
  if (options_.documents == config::Documents::joined) {
    text = fmt::format("documents joined (attention crosses document borders), {} windows of {} tokens",
                       joined_windows(), options_.seq_len);
    const std::int64_t tail = corpus_.tokens() - (joined_windows() * options_.seq_len + 1);
    if (tail > 0) text += fmt::format("; the last {} tokens do not fill a window and are left out", tail);
  } else {
    const std::shared_ptr<const Packing> first = packing(0);
    text = fmt::format(
        "documents separate (packed, none sees another), {} windows of at most {} tokens in the first epoch",
        first->windows(), options_.seq_len);
    if (first->cut() > 0)
      text += fmt::format("; {} documents longer than a window are cut, and their pieces do not see each other",
                          first->cut());
    if (first->left_out() > 0)
      text += fmt::format("; {} documents of fewer than two tokens have no target and are left out", first->left_out());
  }
  base::log_info("{}: {}", corpus_.setting(), text);
}

base::Permutation Dataset::permutation(std::int64_t count, std::int64_t epoch) const {
  return {static_cast<std::uint64_t>(count), options_.seed,
          base::stream_of("data order") + static_cast<std::uint64_t>(epoch)};
}

std::function<std::int64_t(std::int64_t)> Dataset::order(std::int64_t count, std::int64_t epoch) const {
  if (options_.order == Order::file) return [](std::int64_t place) { return place; };
  return [permutation = permutation(count, epoch)](std::int64_t place) {
    return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(place)));
  };
}

std::shared_ptr<const Packing> Dataset::packing(std::int64_t epoch) const {
  const std::int64_t key = options_.order == Order::file ? 0 : epoch;
  // The lock is held while packing, so that two threads do not pack the same epoch.
  const std::lock_guard lock(mutex_);
  for (const auto& [number, kept] : packings_)
    if (number == key) return kept;
  auto fresh = std::make_shared<const Packing>(
      corpus_.documents(), [this](std::int64_t document) { return corpus_.tokens_of(document); },
      order(corpus_.documents(), epoch), options_.seq_len);
  if (packings_.size() == packings_kept) packings_.erase(packings_.begin());
  packings_.emplace_back(key, fresh);
  return fresh;
}

std::int64_t Dataset::windows(std::int64_t epoch) const {
  return options_.documents == config::Documents::joined ? joined_windows() : packing(epoch)->windows();
}

// Two neighbouring windows together have more inputs than one window holds, because the first piece of the second did
// not fit into the first; hence fewer than twice the least number of windows.
Dataset::Bounds Dataset::window_bounds() const {
  if (options_.documents == config::Documents::joined || options_.order == Order::file) return {windows(0), windows(0)};
  std::int64_t inputs = 0, pieces = 0;
  for (std::int64_t document = 0; document < corpus_.documents(); ++document) {
    const std::int64_t own = std::max<std::int64_t>(0, corpus_.tokens_of(document) - 1);
    inputs += own;
    pieces += (own + options_.seq_len - 1) / options_.seq_len;
  }
  const std::int64_t least = (inputs + options_.seq_len - 1) / options_.seq_len;
  return {least, std::min(pieces, 2 * least - 1)};
}

std::function<std::int64_t(std::int64_t)> Dataset::window_counter() const {
  std::vector<std::int64_t> tokens;
  for (std::int64_t document = 0; document < corpus_.documents(); ++document)
    tokens.push_back(corpus_.tokens_of(document));
  return [this, tokens = std::move(tokens)](std::int64_t epoch) {
    Packing::Count count(options_.seq_len);
    permutation(corpus_.documents(), epoch).for_each([&](std::uint64_t document) { count.add(tokens[document]); });
    return count.windows();
  };
}

Window Dataset::window(std::int64_t epoch, std::int64_t index) const {
  if (options_.documents == config::Documents::separate) return packed_window(packing(epoch)->pieces(index));
  base::expect(index >= 0 && index < joined_windows(), "window {} of {}", index, joined_windows());
  return joined_window(order(joined_windows(), epoch)(index));
}

Window Dataset::joined_window(std::int64_t number) const {
  const auto inputs = static_cast<std::size_t>(options_.seq_len);
  Window window;
  window.ids.resize(inputs + 1);
  std::vector<std::int64_t> targets(inputs + 1);
  corpus_.read_stream(number * options_.seq_len, window.ids, targets);
  window.ids.pop_back();
  window.labels.assign(targets.begin() + 1, targets.end());
  window.positions.resize(inputs);
  std::iota(window.positions.begin(), window.positions.end(), 0);
  window.attention_starts = {0, options_.seq_len};
  window.valid_tokens = count_valid(window.labels);
  return window;
}

Window Dataset::packed_window(const std::vector<Piece>& pieces) const {
  Window window;
  window.attention_starts = {0};
  std::vector<std::int64_t> ids, targets;
  for (const Piece& piece : pieces) {
    ids.resize(static_cast<std::size_t>(piece.inputs) + 1);
    targets.resize(ids.size());
    corpus_.read_document(piece.document, piece.first, ids, targets);
    window.ids.insert(window.ids.end(), ids.begin(), ids.end() - 1);
    window.labels.insert(window.labels.end(), targets.begin() + 1, targets.end());
    for (std::int64_t i = 0; i < piece.inputs; ++i) window.positions.push_back(i);
    window.attention_starts.push_back(window.attention_starts.back() + piece.inputs);
  }
  window.valid_tokens = count_valid(window.labels);
  return window;
}

}  // namespace tessera::data
