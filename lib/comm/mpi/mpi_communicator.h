// The communicator of a group of ranks over MPI, on host memory. It builds collectives from messages between two ranks,
// so that a rank knows which ranks it waits for, and forms sums itself, in rank order. Each operation of each group has
// its own tags: operations of different groups may overtake each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/progress.h"

namespace tessera::comm {

// The state that all groups of a process share.
struct MpiGroups {
  Progress& progress;
  RankTable& table;
  const PeerMemory& memory;
  std::int64_t message_bytes;  // 0: message_bytes_for the group
  std::int64_t id_limit;       // the number of group ids that MPI's tags have room for
  std::int64_t next_id = 0;    // larger than the ids of all groups of this process
  std::string label = {};      // what this rank is doing
};

// The number of tags of a group, two per operation. Tags repeat after half as many operations; messages with equal tags
// match in the order in which they were sent.
inline constexpr std::int64_t tags_per_group = 4096;

class MpiCommunicator final : public Communicator {
 public:
  // Makes the group of `members`, which are ranks of the world; this rank is members[rank]. Precondition: `id` is equal
  // on all members, no other group with two of them has it, and members.size() > 1. Throws Error(bad_input) if
  // `id` reaches the id limit.
  MpiCommunicator(std::shared_ptr<MpiGroups> groups, std::vector<int> members, std::int64_t rank, std::int64_t id);

  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }

  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) override;
  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) override;
  // Small arrays take one round of messages (see reduced_whole_bytes). In larger ones each rank sums a block and sends
  // it to all.
  Handle all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                    KeepAlive keep) override;
  // The call itself copies the rows that this rank sends to itself.
  Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements, ElementType type,
                         KeepAlive keep) override;
  // The root sends the whole array to each rank.
  Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root, KeepAlive keep) override;
  void barrier() override;
  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) override;
  void set_name(std::string_view name) override { name_ = name; }
  void set_label(std::string_view label) override;

 private:
  [[nodiscard]] Transfer in_messages() const { return {message_bytes_, nullptr}; }
  [[nodiscard]] Transfer reading_or_in_messages() const { return {message_bytes_, &groups_->memory}; }
  // Rows are consecutive: up to four times least_bytes() (4 MiB), messages are as fast as reading and start sooner.
  [[nodiscard]] Transfer of_rows() const {
    return {message_bytes_, &groups_->memory, 4 * groups_->memory.least_bytes()};
  }
  [[nodiscard]] int member(std::int64_t rank) const { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Handle start(std::string_view operation, std::vector<Transfer> phases, KeepAlive keep);
  [[nodiscard]] Handle all_reduce_whole(const Strided& data, ElementType type, ReduceOperation operation,
                                        KeepAlive keep);
  [[nodiscard]] Handle all_reduce_in_blocks(const Strided& data, ElementType type, ReduceOperation operation,
                                            KeepAlive keep);
  // Collective: returns an id for the new groups that no rank of this group has used; disjoint new groups share it.
  [[nodiscard]] std::int64_t agree_on_id(std::span<const std::int64_t> ranks);

  const std::shared_ptr<MpiGroups> groups_;
  const std::vector<int> members_;
  const std::int64_t rank_;
  const std::int64_t id_;
  const std::int64_t message_bytes_;
  const std::string description_;  // "ranks 0, 2"
  std::string name_;
  std::int64_t operations_ = 0;  // the number started so far
};

}  // namespace tessera::comm
