// The offsets of a unit's parameters in its gathered buffer and in its gradient buffer.
//
// The memory plan and the code that takes the buffers both use this arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layout/layout.h"
#include "plan/placement.h"
#include "plan/unit.h"

namespace tessera::plan {

// bind_where_possible: a use that gathers over one rank takes the shard gradient and, if the master has the compute
// type, the master in place of buffers. always_copy: every use has buffers, so that one rank runs the same code as
// many.
enum class BindPolicy { bind_where_possible, always_copy };

struct ElementSizes {
  std::int64_t compute_bytes = 4;
  std::int64_t master_bytes = 4;
  bool same_type = true;  // masters have the compute type
};

struct UseStorage {
  layout::Box box;                   // the part that the use gathers
  bool value_is_bound = false;       // to the master shard
  bool gradient_is_bound = false;    // to the shard gradient
  std::int64_t value_offset = 0;     // in bytes, in the gathered buffer; if not bound
  std::int64_t gradient_offset = 0;  // in bytes, in the gradient buffer; if not bound
};

struct UnitStorage {
  std::vector<UseStorage> uses;  // in the order of Unit::uses
  std::int64_t value_bytes = 0;
  std::int64_t gradient_bytes = 0;
};

// Finds placements by the FQNs of their parameters in constant time.
class PlacementIndex {
 public:
  // `placements` must outlive this unchanged.
  explicit PlacementIndex(const std::vector<Placement>& placements);
  // Throws std::logic_error if there is no placement for `fqn`.
  [[nodiscard]] const Placement& of(std::string_view fqn) const;

 private:
  std::unordered_map<std::string_view, const Placement*> by_fqn_;
};

// Computes the storage of `unit` on `rank`. Offsets are multiples of 64 bytes.
[[nodiscard]] UnitStorage unit_storage(const Unit& unit, const PlacementIndex& placements, const layout::Layout& layout,
                                       std::int64_t rank, ElementSizes sizes, BindPolicy policy);

// Maps each FQN to the index of the first unit that uses it.
[[nodiscard]] std::unordered_map<std::string, std::size_t> home_units(const std::vector<Unit>& units);

}  // namespace tessera::plan
