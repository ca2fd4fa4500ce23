// The sharded parameters of a rank, and the units in which they are gathered, freed and reduced.
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

// The shard of a parameter that this rank keeps for the whole run.
struct ShardedParameter {
  plan::Placement placement;
  layout::Box box;
  at::Tensor master;       // has the box's shape and the master type
  at::Tensor gradient;     // has the same shape and type; zero between steps
  bool is_primary = true;  // this rank is the one that counts the shard in norms
};

// A collective over `group` that is under way.
struct Travelling {
  layout::GroupId group;
  comm::Handle handle;
};

struct StoreOptions {
  device::Numbers numbers;
  plan::BindPolicy binding = plan::BindPolicy::bind_where_possible;
  device::Poison poison = device::Poison::off;
  std::map<std::int64_t, std::int64_t> weight_buffers;  // bytes of a buffer -> number of buffers, from the memory plan
  std::map<std::int64_t, std::int64_t> gradient_buffers;  // the same
};

// Allocates shards and pools only, never a whole parameter. Masters are undefined until the caller fills them. Only the
// executor gathers, frees and reduces units, in the order of the program; start_gather and start_reduce are collective
// over the groups of the unit's parameters. `layout` and `mesh` outlive this.
class ParameterStore {
 public:
  ParameterStore(const std::vector<plan::Unit>& units, const std::vector<plan::Placement>& placements,
                 const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t rank, StoreOptions options);

  [[nodiscard]] std::vector<ShardedParameter>& parameters() { return memory_->parameters; }
  [[nodiscard]] const std::vector<ShardedParameter>& parameters() const { return memory_->parameters; }
  [[nodiscard]] ShardedParameter& parameter(const std::string& fqn);

  // Returns the weight of use `use` of unit `unit`, whose address stays the same.
  [[nodiscard]] device::Weight& weight(std::size_t unit, std::size_t use) { return *units_[unit].weights[use]; }

  // Takes a buffer, casts this rank's shards into their places there and starts the all-gather of the rest. The weights
  // are complete once all returned collectives have been waited for. A weight whose shard is all that its use needs is
  // bound to the shard, without copy or communication.
  [[nodiscard]] std::vector<Travelling> start_gather(std::size_t unit);
  // Unbinds the unit's weights at once and gives the buffer back.
  void free(std::size_t unit);

  // Binds a zeroed gradient buffer, unless the unit has one already. Gradients bound to the shard gradient need none.
  void take_gradient(std::size_t unit);
  // Starts the reduce-scatter of the unit's gradient buffer, which adds to the shard gradients. The caller waits for
  // all returned collectives, then calls give_back_gradient().
  [[nodiscard]] std::vector<Travelling> start_reduce(std::size_t unit);
  void give_back_gradient(std::size_t unit);

  // Returns the indices of the parameters that are used first in this unit.
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
    std::byte* value_buffer = nullptr;
    std::byte* gradient_buffer = nullptr;
    bool is_gathered = false;
    bool has_gradient = false;
  };

  // All memory that collectives read and write here. Collectives under way keep it alive: an exception that ends the
  // run must not free memory that another rank still reads, or that is still written.
  struct Memory {
    explicit Memory(const StoreOptions& options);
    device::BufferPool weights, gradients;
    std::vector<ShardedParameter> parameters;
  };

  void bind_values(UnitState& state, std::byte* buffer);
  void bind_gradients(UnitState& state, std::byte* buffer);
  [[nodiscard]] std::vector<comm::Strided> pieces(const ShardedParameter& parameter, plan::UseKind use,
                                                  const layout::Box& box, const at::Tensor& tensor) const;

  const layout::Layout& layout_;
  const mesh::Mesh& mesh_;
  std::int64_t rank_;
  StoreOptions options_;
  const std::shared_ptr<Memory> memory_;
  std::unordered_map<std::string, std::size_t> by_fqn_;  // FQN -> index in the parameters
  std::vector<UnitState> units_;
};

// Returns a view of the part `inner` of a tensor that holds the box `outer`. Precondition: inner lies within outer.
[[nodiscard]] at::Tensor part_of(const at::Tensor& tensor, const layout::Box& outer, const layout::Box& inner);

// Returns the part `inner` of a contiguous tensor that holds the box `outer`, as strided memory. Precondition: inner
// lies within outer, and the boxes differ in at most one dim besides dim 0.
[[nodiscard]] comm::Strided strided_part(void* data, std::size_t element_bytes, const layout::Box& outer,
                                         const layout::Box& inner);

}  // namespace tessera::fsdp
