// Packs whole documents into windows: next-fit, in the order given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::data {

// Part of a document within a window: tokens [first, first + inputs] of the document. The last of them is only a
// target, so the piece has `inputs` inputs and as many targets.
struct Piece {
  std::int64_t document;
  std::int64_t first;
  std::int64_t inputs;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// A document of n tokens has n - 1 inputs. It goes into the current window if it fits, and otherwise begins a new one.
// A document with more inputs than a window is cut into pieces that fill a window each, and a rest, which is placed
// like a document. Neighbouring pieces share one token (a target of the one, the first input of the next), so no target
// is lost. Documents of fewer than two tokens have no target and are left out. The result depends on the arguments
// alone.
class Packing {
 public:
  using Lengths = std::function<std::int64_t(std::int64_t document)>;  // in tokens
  using Order = std::function<std::int64_t(std::int64_t place)>;       // a permutation of the documents

  // Keeps both functions, and 16 bytes per window. `capacity`: most inputs of a window.
  Packing(std::int64_t documents, Lengths lengths, Order order, std::int64_t capacity);

  // Counts the windows of a packing, document by document, without keeping it.
  class Count {
   public:
    explicit Count(std::int64_t capacity) : capacity_(capacity), used_(capacity) {}
    // Adds the next document, of `tokens` tokens.
    void add(std::int64_t tokens) {
      for (std::int64_t left = tokens - 1; left > 0; left -= capacity_) place(std::min(capacity_, left));
    }
    // Adds a piece. Returns whether it begins a window.
    bool place(std::int64_t inputs) {
      const bool begins = used_ + inputs > capacity_;
      used_ = begins ? inputs : used_ + inputs;
      windows_ += begins ? 1 : 0;
      return begins;
    }
    [[nodiscard]] std::int64_t windows() const { return windows_; }

   private:
    std::int64_t capacity_;
    std::int64_t used_;  // inputs in the last window; starts as full, so that the first piece begins a window
    std::int64_t windows_ = 0;
  };

  [[nodiscard]] std::int64_t windows() const { return static_cast<std::int64_t>(starts_.size()); }
  [[nodiscard]] std::int64_t left_out() const { return left_out_; }  // documents without a target
  [[nodiscard]] std::int64_t cut() const { return cut_; }            // documents longer than a window
  // Precondition: 0 <= window < windows().
  [[nodiscard]] std::vector<Piece> pieces(std::int64_t window) const;

 private:
  struct Start {
    std::int64_t place;  // in the order
    std::int64_t first;  // token of that document
  };

  std::int64_t documents_;
  Lengths lengths_;
  Order order_;
  std::int64_t capacity_;
  std::vector<Start> starts_;
  std::int64_t left_out_ = 0, cut_ = 0;
};

}  // namespace tessera::data
