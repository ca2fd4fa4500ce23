// Where the parameters of a unit lie in its gathered buffer and in its gradient buffer.
//
// One arithmetic for the memory plan and for the buffers that are really taken.
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

// bind_where_possible: where a group of one rank gathers, the shard already is the needed part: no buffer is used if
// its type is the needed one; always_copy: a buffer always, so that one rank runs what many ranks do.
enum class SlotPolicy { bind_where_possible, always_copy };

struct ElementSizes {
  std::int64_t compute_bytes = 4;
  std::int64_t master_bytes = 4;
  bool same_type = true;  // masters are in the compute type
};

struct UseStorage {
  layout::Box box;                   // what the use gathers
  bool value_is_bound = false;       // the master shard itself
  bool gradient_is_bound = false;    // the shard gradient itself
  std::int64_t value_offset = 0;     // bytes into the gathered buffer, if not bound
  std::int64_t gradient_offset = 0;  // bytes into the gradient buffer, if not bound
};

struct UnitStorage {
  std::vector<UseStorage> uses;  // as in Unit::uses
  std::int64_t value_bytes = 0;
  std::int64_t gradient_bytes = 0;
};

// Finds placements by the names of their parameters, in constant time: made once, asked often. Refers to the list,
// which must outlive it unchanged.
class PlacementIndex {
 public:
  explicit PlacementIndex(const std::vector<Placement>& placements);
  // Throws std::logic_error if there is none.
  [[nodiscard]] const Placement& of(std::string_view fqn) const;

 private:
  std::unordered_map<std::string_view, const Placement*> by_fqn_;
};

// Offsets are multiples of 64 bytes.
[[nodiscard]] UnitStorage unit_storage(const Unit& unit, const PlacementIndex& placements, const layout::Layout& layout,
                                       std::int64_t rank, ElementSizes sizes, SlotPolicy policy);

// Whether anything travels over the group: it has several ranks. No group ("") is a rank alone.
[[nodiscard]] bool has_several_ranks(const layout::Layout& layout, const std::string& group);

// By parameter: the index of the first unit that uses it.
[[nodiscard]] std::unordered_map<std::string, std::size_t> home_units(const std::vector<Unit>& units);

}  // namespace tessera::plan
