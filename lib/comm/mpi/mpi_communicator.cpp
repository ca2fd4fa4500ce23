#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "comm/traffic.h"

namespace tessera::comm {

namespace {

class Pending final : public Operation {
 public:
  explicit Pending(std::shared_ptr<Task> task) : task_(std::move(task)) {}
  void wait() override { task_->wait(); }
  [[nodiscard]] Span span() const override { return task_->span(); }

 private:
  std::shared_ptr<Task> task_;
};

Strided elements_of(void* data, std::int64_t begin, std::int64_t end, ElementType type) {
  auto* bytes = static_cast<std::byte*>(data);
  if (begin < end) bytes += static_cast<std::size_t>(begin) * element_bytes(type);
  return {bytes, 1, end - begin, end - begin};
}

ByteSequence sequence_of(const Strided& piece, ElementType type) {
  ByteSequence sequence;
  sequence.append(piece, type);
  return sequence;
}

void expect_counts(std::span<const std::int64_t> counts, std::int64_t ranks) {
  base::expect(static_cast<std::int64_t>(counts.size()) == ranks, "{} counts for {} ranks", counts.size(), ranks);
  base::expect(std::all_of(counts.begin(), counts.end(), [](std::int64_t c) { return c >= 0; }), "a negative count");
}

// Returns the row at which each rank's rows begin, followed by the total.
std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> counts) {
  std::vector<std::int64_t> offsets{0};
  for (const auto count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiGroups> groups, std::vector<int> members, std::int64_t rank,
                                 std::int64_t id)
    : groups_(std::move(groups)),
      members_(std::move(members)),
      rank_(rank),
      id_(id),
      message_bytes_(groups_->message_bytes > 0 ? groups_->message_bytes : message_bytes_for(size())),
      description_(describe_ranks(members_)) {
  base::expect(size() > 1 && 0 <= rank && rank < size(), "rank {} of a group of {}", rank, size());
  base::require(
      id < groups_->id_limit,
      "the run makes {} groups of ranks, but this MPI has message tags for {} only; use fewer parallel groups", id + 1,
      groups_->id_limit);
}

void MpiCommunicator::set_label(std::string_view label) {
  groups_->label = label;
  groups_->table.write_label(label);
}

Handle MpiCommunicator::start(std::string_view operation, std::vector<Transfer> phases, KeepAlive keep) {
  const auto number = operations_++;
  const auto tag = static_cast<int>(id_ * tags_per_group + number * 2 % tags_per_group);
  auto task = std::make_shared<Task>(
      Purpose{.operation = operation, .ranks = description_, .group = name_, .label = groups_->label}, number, tag,
      std::move(phases), std::move(keep));
  groups_->progress.start(task);
  return std::make_unique<Pending>(std::move(task));
}

Handle MpiCommunicator::gather_blocks(std::vector<GatherBlock> blocks, KeepAlive keep) {
  for (const auto& block : blocks)
    base::expect(static_cast<std::int64_t>(block.pieces.size()) == size(), "{} pieces for {} ranks",
                 block.pieces.size(), size());
  const auto pieces_of = [&](std::int64_t rank) {
    ByteSequence pieces;
    for (const auto& block : blocks) pieces.append(block.pieces[static_cast<std::size_t>(rank)], block.type);
    return pieces;
  };
  const auto own = pieces_of(rank_);
  auto gather = reading_or_in_messages();
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank_) continue;
    gather.receive(member(k), pieces_of(k));
    gather.send(member(k), own);
  }
  std::vector<Transfer> phases;
  phases.push_back(std::move(gather));
  return start("gather_blocks", std::move(phases), std::move(keep));
}

Handle MpiCommunicator::reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive keep) {
  // Larger elements first, as PieceSum demands. All ranks sort alike, since their types have the same order.
  std::stable_sort(blocks.begin(), blocks.end(), [](const ReduceBlock& a, const ReduceBlock& b) {
    return element_bytes(a.type) > element_bytes(b.type);
  });
  std::vector<SummedPiece> summed;
  for (const auto& block : blocks) summed.push_back(summed_piece(block, rank_, size()));
  auto reduce = reading_or_in_messages();
  reduce.sum(members_, rank_, PieceSum(std::move(summed), rank_, size()));
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank_) continue;
    ByteSequence pieces;
    for (const auto& block : blocks) pieces.append(block.pieces[static_cast<std::size_t>(k)], block.type);
    reduce.send(member(k), std::move(pieces));
  }
  std::vector<Transfer> phases;
  phases.push_back(std::move(reduce));
  return start("reduce_blocks", std::move(phases), std::move(keep));
}

Handle MpiCommunicator::all_reduce(void* data, std::int64_t elements, ElementType type, ReduceOperation operation,
                                   KeepAlive keep) {
  base::expect(elements >= 0, "{} elements", elements);
  const Strided whole{data, 1, elements, elements};
  if (elements * static_cast<std::int64_t>(element_bytes(type)) <= reduced_whole_bytes)
    return all_reduce_whole(whole, type, operation, std::move(keep));
  return all_reduce_in_blocks(whole, type, operation, std::move(keep));
}

Handle MpiCommunicator::all_reduce_whole(const Strided& data, ElementType type, ReduceOperation operation,
                                         KeepAlive keep) {
  // The messages to other ranks need the original values, which the total overwrites: they are sent from a copy.
  struct Copy {
    std::vector<std::byte> bytes;
    KeepAlive keep;
  };
  const auto count = data.row_elements * static_cast<std::int64_t>(element_bytes(type));
  auto copy = std::make_shared<Copy>(Copy{std::vector<std::byte>(static_cast<std::size_t>(count)), std::move(keep)});
  if (count > 0) std::memcpy(copy->bytes.data(), data.data, copy->bytes.size());
  auto reduce = in_messages();
  reduce.all_pass(count);
  reduce.sum(
      members_, rank_,
      PieceSum({{.type = type, .own = data, .target = data, .operation = operation, .total_goes = TotalGoes::stored}},
               rank_, size()));
  const Strided sent{copy->bytes.data(), data.rows, data.row_elements, data.stride_elements};
  for (std::int64_t k = 0; k < size(); ++k)
    if (k != rank_) reduce.send(member(k), sequence_of(sent, type));
  std::vector<Transfer> phases;
  phases.push_back(std::move(reduce));
  return start("all_reduce", std::move(phases), std::move(copy));
}

Handle MpiCommunicator::all_reduce_in_blocks(const Strided& data, ElementType type, ReduceOperation operation,
                                             KeepAlive keep) {
  const auto block_of = [&](std::int64_t rank) {
    const auto range = all_reduce_block(data.row_elements, rank, size());
    return elements_of(data.data, range.begin, range.end, type);
  };
  const auto own = block_of(rank_);
  auto reduce = reading_or_in_messages(), gather = reading_or_in_messages();
  for (auto* phase : {&reduce, &gather})
    phase->all_pass(data.row_elements * static_cast<std::int64_t>(element_bytes(type)));
  reduce.sum(
      members_, rank_,
      PieceSum({{.type = type, .own = own, .target = own, .operation = operation, .total_goes = TotalGoes::stored}},
               rank_, size()));
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank_) continue;
    reduce.send(member(k), sequence_of(block_of(k), type));
    gather.receive(member(k), sequence_of(block_of(k), type));
    gather.send(member(k), sequence_of(own, type));
  }
  std::vector<Transfer> phases;
  phases.push_back(std::move(reduce));
  phases.push_back(std::move(gather));
  return start("all_reduce", std::move(phases), std::move(keep));
}

Handle MpiCommunicator::all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                                        std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                                        ElementType type, KeepAlive keep) {
  expect_counts(send_counts, size());
  expect_counts(receive_counts, size());
  base::expect(row_elements >= 0, "rows of {} elements", row_elements);
  const auto from = offsets_of(send_counts), to = offsets_of(receive_counts);
  const auto rows = [&](void* data, const std::vector<std::int64_t>& offsets, std::int64_t k) {
    const auto at = static_cast<std::size_t>(k);
    return elements_of(data, offsets[at] * row_elements, offsets[at + 1] * row_elements, type);
  };
  auto* source = const_cast<void*>(send);  // only read
  auto exchange = of_rows();
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank_) continue;
    exchange.receive(member(k), sequence_of(rows(receive, to, k), type));
    exchange.send(member(k), sequence_of(rows(source, from, k), type));
  }
  const auto own = rows(source, from, rank_), place = rows(receive, to, rank_);
  base::expect(own.row_elements == place.row_elements, "a rank sends itself what it receives");
  std::vector<Transfer> phases;
  phases.push_back(std::move(exchange));
  auto handle = start("all_to_all_rows", std::move(phases), std::move(keep));
  // The exchange with the other ranks goes on during this copy.
  if (own.row_elements > 0)
    std::memcpy(place.data, own.data, static_cast<std::size_t>(own.row_elements) * element_bytes(type));
  return handle;
}

Handle MpiCommunicator::broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t root,
                                  KeepAlive keep) {
  base::expect(0 <= root && root < size(), "rank {} of a group of {}", root, size());
  base::expect(elements >= 0, "{} elements", elements);
  const auto whole = sequence_of({data, 1, elements, elements}, type);
  auto broadcast = in_messages();
  if (rank_ != root) broadcast.receive(member(root), whole);
  for (std::int64_t k = 0; k < size(); ++k)
    if (rank_ == root && k != root) broadcast.send(member(k), whole);
  std::vector<Transfer> phases;
  phases.push_back(std::move(broadcast));
  return start("broadcast", std::move(phases), std::move(keep));
}

void MpiCommunicator::barrier() {
  const auto words = std::make_shared<std::vector<std::int32_t>>(members_.size());
  auto meeting = in_messages();
  for (std::int64_t k = 0; k < size(); ++k) {
    if (k == rank_) continue;
    meeting.receive(member(k),
                    sequence_of(elements_of(words->data(), k, k + 1, ElementType::int32), ElementType::int32));
    meeting.send(member(k),
                 sequence_of(elements_of(words->data(), rank_, rank_ + 1, ElementType::int32), ElementType::int32));
  }
  std::vector<Transfer> phases;
  phases.push_back(std::move(meeting));
  start("barrier", std::move(phases), words)->wait();
}

std::int64_t MpiCommunicator::agree_on_id(std::span<const std::int64_t> ranks) {
  // Gathers from each rank the hash of its subgroup and the first id that is free in its process.
  const auto hash = static_cast<std::int64_t>(base::xxh3(std::as_bytes(ranks)));
  std::vector<std::int64_t> known(2 * members_.size());
  GatherBlock block{.type = ElementType::int64, .pieces = {}};
  for (std::int64_t k = 0; k < size(); ++k)
    block.pieces.push_back(elements_of(known.data(), 2 * k, 2 * k + 2, ElementType::int64));
  const auto own = static_cast<std::size_t>(2 * rank_);
  known[own] = hash;
  known[own + 1] = groups_->next_id;
  gather_blocks({std::move(block)}, nullptr)->wait();
  for (const auto rank : ranks)
    base::expect(known[static_cast<std::size_t>(2 * rank)] == hash, "ranks {} and {} make groups that overlap", rank_,
                 rank);
  std::int64_t id = 0;
  for (std::size_t k = 1; k < known.size(); k += 2) id = std::max(id, known[k]);
  groups_->next_id = id + 1;
  return id;
}

std::shared_ptr<Communicator> MpiCommunicator::make_group(std::span<const std::int64_t> ranks) {
  base::expect(std::set<std::int64_t>(ranks.begin(), ranks.end()).size() == ranks.size(), "a rank twice in a group");
  base::expect(std::all_of(ranks.begin(), ranks.end(), [&](std::int64_t r) { return 0 <= r && r < size(); }),
               "a rank of a group of {} is none", size());
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  base::expect(own != ranks.end(), "rank {} is not in the group that it makes", rank_);
  const auto id = agree_on_id(ranks);
  if (ranks.size() == 1) return solo_communicator();
  std::vector<int> members;
  for (const auto rank : ranks) members.push_back(member(rank));
  return std::make_shared<MpiCommunicator>(groups_, std::move(members), own - ranks.begin(), id);
}

}  // namespace tessera::comm
