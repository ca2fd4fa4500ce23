// What dispatch and combine cost beyond their rows, under mpirun. Prints Markdown.
//
//   mpirun -n RANKS bench_dispatch [TOKENS...]
//
// Each rank has TOKENS tokens of hidden size 1024, float32, for 4 of 64 experts, which the ranks share. Both ways:
// counts, then rows, weights and places of slots to the owners, then partial sums back, as the executor sends them.
// Against Open MPI's Alltoallv of the distinct (token, owner) rows alone, there and back. The time of a call is that of
// the slowest rank, from a barrier on; both take turns.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/quantity.h"
#include "bench/measure_ranks.h"
#include "comm/world.h"

namespace tessera::bench {
namespace {

using comm::ElementType;
using Counts = std::vector<std::int64_t>;

constexpr std::int64_t hidden = 1024, experts = 64, chosen = 4;

std::int64_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

// Rows and slots of this rank's tokens by owner: experts are drawn evenly.
struct Routing {
  Counts rows, slots, expert_counts;

  Routing(std::int64_t tokens, std::int64_t ranks, std::int64_t rank)
      : rows(static_cast<std::size_t>(ranks), 0), slots(rows), expert_counts(experts, 0) {
    std::mt19937 random(static_cast<unsigned>(rank + 1));
    const auto of_rank = (experts + ranks - 1) / ranks;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::set<std::int64_t> own, owners;
      while (static_cast<std::int64_t>(own.size()) < chosen) own.insert(static_cast<std::int64_t>(random() % experts));
      for (const auto e : own) {
        owners.insert(e / of_rank);
        ++expert_counts[static_cast<std::size_t>(e)];
        ++slots[static_cast<std::size_t>(e / of_rank)];
      }
      for (const auto owner : owners) ++rows[static_cast<std::size_t>(owner)];
    }
  }
};

class Layer {
 public:
  Layer(comm::Communicator& group, const Routing& routing)
      : group_(group),
        routing_(routing),
        experts_(static_cast<std::size_t>(group.size()), experts / group.size()),
        one_(experts_.size(), 1),
        source_rows_(experts_.size()),
        source_experts_(static_cast<std::size_t>(experts)) {
    exchange_counts();
    rows_.resize(static_cast<std::size_t>(sum(routing.rows) * hidden), 1.0F);
    back_ = rows_;
    slots_.resize(static_cast<std::size_t>(sum(routing.slots)), 1);
    weights_.resize(slots_.size(), 1.0F);
    const auto received = source_slots();
    arrived_rows_.resize(static_cast<std::size_t>(sum(source_rows_) * hidden));
    arrived_slots_.resize(static_cast<std::size_t>(sum(received)));
    arrived_weights_.resize(arrived_slots_.size());
  }

  void dispatch_and_combine() {
    exchange_counts();
    const auto received = source_slots();
    std::vector<comm::Handle> handles;
    handles.push_back(group_.all_to_all_rows(rows_.data(), routing_.rows, arrived_rows_.data(), source_rows_, hidden,
                                             ElementType::float32, nullptr));
    handles.push_back(group_.all_to_all_rows(weights_.data(), routing_.slots, arrived_weights_.data(), received, 1,
                                             ElementType::float32, nullptr));
    handles.push_back(group_.all_to_all_rows(slots_.data(), routing_.slots, arrived_slots_.data(), received, 1,
                                             ElementType::int64, nullptr));
    for (auto& handle : handles) handle->wait();
    group_
        .all_to_all_rows(arrived_rows_.data(), source_rows_, back_.data(), routing_.rows, hidden, ElementType::float32,
                         nullptr)
        ->wait();
  }

  void rows_alone() {
    alltoallv(rows_, routing_.rows, arrived_rows_, source_rows_);
    alltoallv(arrived_rows_, source_rows_, back_, routing_.rows);
  }

 private:
  void exchange_counts() {
    auto rows =
        group_.all_to_all_rows(routing_.rows.data(), one_, source_rows_.data(), one_, 1, ElementType::int64, nullptr);
    group_
        .all_to_all_rows(routing_.expert_counts.data(), experts_, source_experts_.data(), experts_, 1,
                         ElementType::int64, nullptr)
        ->wait();
    rows->wait();
  }
  [[nodiscard]] Counts source_slots() const {
    Counts slots(one_.size(), 0);
    for (std::size_t k = 0; k < source_experts_.size(); ++k)
      slots[k / static_cast<std::size_t>(experts_[0])] += source_experts_[k];
    return slots;
  }
  static void alltoallv(std::vector<float>& from, const Counts& sent, std::vector<float>& to, const Counts& received) {
    const auto packed = [](const Counts& rows) {
      std::pair<std::vector<int>, std::vector<int>> counts_and_places;
      int place = 0;
      for (const auto count : rows) {
        counts_and_places.first.push_back(static_cast<int>(count * hidden));
        counts_and_places.second.push_back(place);
        place += counts_and_places.first.back();
      }
      return counts_and_places;
    };
    const auto [send_counts, send_places] = packed(sent);
    const auto [receive_counts, receive_places] = packed(received);
    MPI_Alltoallv(from.data(), send_counts.data(), send_places.data(), MPI_FLOAT, to.data(), receive_counts.data(),
                  receive_places.data(), MPI_FLOAT, MPI_COMM_WORLD);
  }

  comm::Communicator& group_;
  const Routing& routing_;
  const Counts experts_, one_;
  Counts source_rows_, source_experts_;
  std::vector<float> rows_, back_, weights_, arrived_rows_, arrived_weights_;
  std::vector<std::int64_t> slots_, arrived_slots_;
};

base::ExitCode run(const comm::World& world, const std::vector<std::int64_t>& sizes) {
  base::require(world.size() > 1 && experts % world.size() == 0, "{} experts are not shared evenly by {} ranks",
                experts, world.size());
  if (world.rank() == 0)
    fmt::print(
        "| {} ranks: tokens | rows to a peer | dispatch + combine | Alltoallv of rows, twice | ratio |\n"
        "| --- | --- | --- | --- | --- |\n",
        world.size());
  for (const auto tokens : sizes) {
    const Routing routing(tokens, world.size(), world.rank());
    Layer layer(*world.communicator(), routing);
    std::vector<double> ours, mpi;
    double spent = 0;
    layer.dispatch_and_combine();
    layer.rows_alone();
    while (ours.size() < 5 || (spent < 1.5 && ours.size() < 300)) {
      ours.push_back(time_of([&] { layer.dispatch_and_combine(); }));
      mpi.push_back(time_of([&] { layer.rows_alone(); }));
      spent += ours.back() + mpi.back();
    }
    const auto peer = static_cast<std::size_t>((world.rank() + 1) % world.size());
    if (world.rank() == 0)
      fmt::print("| {} | {} | {:.3f} ms | {:.3f} ms | {:.2f} |\n", tokens,
                 base::format_bytes(static_cast<std::uint64_t>(routing.rows[peer] * hidden * 4)), 1e3 * median(ours),
                 1e3 * median(mpi), median(ours) / median(mpi));
    std::fflush(stdout);
  }
  return base::ExitCode::done;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera;
  std::vector<std::int64_t> tokens;
  for (int k = 1; k < argc; ++k) tokens.push_back(std::atoll(argv[k]));
  if (tokens.empty()) tokens = {16, 512, 2048, 8192};
  comm::World world(comm::read_launch());
  return static_cast<int>(world.run([&] { return bench::run(world, tokens); }));
}
