// Which ranks belong together: those along a set of axes of one grid of the layout.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::layout {

// The axes of the dense grid, slowest first.
enum class DenseAxis : std::uint8_t { pp, dp_replicate, dp_shard, ulysses, cp, tp };

// The axes of the grid of an extra parallel x: "x", "x_replicate", "x_fsdp" and "x_tp".
enum class ExtraAxis : std::uint8_t { owners, replicate, fsdp, tp };

// Names a group of every rank: the ranks that differ along these axes alone. Without axes it is the rank alone.
class GroupId {
 public:
  GroupId() = default;  // each rank alone
  static GroupId of(DenseAxis axis);
  static GroupId of(std::string extra, ExtraAxis axis);

  static GroupId world();
  static GroupId fsdp();   // dp_shard, ulysses, cp: cuts ordinary parameters
  static GroupId data();   // dp_replicate, dp_shard: the ranks that have sequences of their own
  static GroupId stage();  // every axis but pp: the ranks that run the same layers
  // pp, ulysses, cp, tp: the ranks that work on the same sequences.
  static GroupId sharing_sequences();

  [[nodiscard]] bool is_alone() const { return axes_ == 0; }
  // The extra parallel whose grid it is; empty for the dense grid, and for a rank alone.
  [[nodiscard]] const std::string& extra() const { return extra_; }
  [[nodiscard]] bool has(DenseAxis axis) const { return extra_.empty() && has_bit(static_cast<int>(axis)); }
  [[nodiscard]] bool has(ExtraAxis axis) const { return !extra_.empty() && has_bit(static_cast<int>(axis)); }
  // Returns the group along the axes of both. Throws std::logic_error if they are of different grids.
  [[nodiscard]] GroupId join(const GroupId& other) const;
  // "world", "fsdp", "data", "dp_replicate+fsdp", "ep", "ep+ep_fsdp"; axes of other sets joined by '+'; "" if alone.
  [[nodiscard]] std::string name() const;

  friend auto operator<=>(const GroupId&, const GroupId&) = default;

 private:
  GroupId(std::string extra, unsigned axes) : extra_(std::move(extra)), axes_(static_cast<std::uint8_t>(axes)) {}
  [[nodiscard]] bool has_bit(int axis) const { return (axes_ >> axis & 1) != 0; }

  std::string extra_;
  std::uint8_t axes_ = 0;  // bit k: the axis of number k
};

[[nodiscard]] std::string name(DenseAxis axis);
// "ep_fsdp".
[[nodiscard]] std::string name(const std::string& extra, ExtraAxis axis);

}  // namespace tessera::layout
