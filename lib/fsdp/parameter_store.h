// Sharded parameters and the units in which they are gathered, freed and reduced.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/communicator.h"
#include "device/buffer_pool.h"
#include "device/numbers.h"
#include "device/weight.h"
#include "layout/layout.h"
#include "mesh/mesh.h"
#include "plan/placement.h"
#include "plan/unit_storage.h"

namespace tessera::fsdp {

// The part of a parameter that this rank keeps for good.
struct ShardedParameter {
  plan::Placement placement;
  layout::Box box;
  at::Tensor master;       // of the box's shape, master type
  at::Tensor gradient;     // the same; zero between steps
  bool is_primary = true;  // this rank counts the shard in norms
};

// A collective of a group, under way.
struct Travelling {
  std::string group;
  comm::Handle handle;
};

struct StoreOptions {
  device::Numbers numbers;
  plan::SlotPolicy slots = plan::SlotPolicy::bind_where_possible;
  device::Poison poison = device::Poison::off;
  std::map<std::int64_t, std::int64_t> weight_slots;  // bytes -> count, from the memory plan
  std::map<std::int64_t, std::int64_t> gradient_slots;
};

// Allocates shards and pools only, never a whole parameter. Masters are undefined until filled by the caller. gather,
// free and reduce are called by the executor alone, in the order of the program; gathers and reductions are collective
// over the groups of the unit's parameters.
class ParameterStore {
 public:
  ParameterStore(const std::vector<plan::Unit>& units, const std::vector<plan::Placement>& placements,
                 const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t rank, StoreOptions options);

  [[nodiscard]] std::vector<ShardedParameter>& parameters() { return memory_->parameters; }
  [[nodiscard]] const std::vector<ShardedParameter>& parameters() const { return memory_->parameters; }
  [[nodiscard]] ShardedParameter& parameter(const std::string& fqn);

  // The weight of use `use` of unit `unit`; its address is stable.
  [[nodiscard]] device::Weight& weight(std::size_t unit, std::size_t use) { return *units_[unit].weights[use]; }

  // Takes a slot, casts this rank's pieces into their place and starts the all-gather of the rest: the weights are
  // whole when all that is returned has been waited for. Where the shard is all that is needed the weight is bound to
  // it and nothing moves.
  [[nodiscard]] std::vector<Travelling> start_gather(std::size_t unit);
  // Unbinds the unit's weights at once and gives the slot back.
  void free(std::size_t unit);

  // Binds a zeroed gradient buffer, unless one is bound already or the gradients are the shard's own.
  void take_gradient(std::size_t unit);
  // Starts the reduce-scatter of the unit's gradient buffer into the shard gradients. When all that is returned has
  // been waited for, the buffer is to be given back.
  [[nodiscard]] std::vector<Travelling> start_reduce(std::size_t unit);
  void give_back_gradient(std::size_t unit);

  // The parameters, by their indices, whose first use is in the unit.
  [[nodiscard]] const std::vector<std::size_t>& home_parameters(std::size_t unit) const {
    return units_[unit].home_parameters;
  }

  void zero_gradients();

 private:
  struct UnitState {
    plan::Unit unit;
    plan::UnitStorage storage;
    std::vector<std::unique_ptr<device::Weight>> weights;
    std::vector<std::size_t> parameters;  // index of each use's parameter
    std::vector<std::size_t> home_parameters;
    std::byte* value_slot = nullptr;
    std::byte* gradient_slot = nullptr;
    bool is_gathered = false;
    bool has_gradient = false;
  };

  // All that collectives read and write here. What is under way holds it: an exception that ends the run must not free
  // what another rank still reads, or what is still written.
  struct Memory {
    explicit Memory(const StoreOptions& options);
    device::BufferPool weights, gradients;
    std::vector<ShardedParameter> parameters;
  };

  void bind_values(UnitState& state, std::byte* slot);
  void bind_gradients(UnitState& state, std::byte* slot);
  [[nodiscard]] std::vector<comm::Strided> pieces(const ShardedParameter& parameter, plan::UseKind use,
                                                  const layout::Box& box, const at::Tensor& tensor) const;

  const layout::Layout& layout_;
  const mesh::Mesh& mesh_;
  std::int64_t rank_;
  StoreOptions options_;
  const std::shared_ptr<Memory> memory_;
  std::unordered_map<std::string, std::size_t> by_fqn_;  // index in the parameters
  std::vector<UnitState> units_;
};

// The part `inner` of a tensor that holds `outer`: a view. Precondition: inner lies within outer.
[[nodiscard]] at::Tensor part_of(const at::Tensor& tensor, const layout::Box& outer, const layout::Box& inner);

// The part `inner` of a contiguous tensor that holds `outer`, as strided memory. Precondition: inner lies within outer;
// of the dims in which they differ all but the first are one.
[[nodiscard]] comm::Strided strided_part(void* data, std::size_t element_bytes, const layout::Box& outer,
                                         const layout::Box& inner);

}  // namespace tessera::fsdp
