// Collectives against Open MPI's own and against memcpy of the bytes that a rank receives, under mpirun. Prints
// Markdown.
//
//   mpirun -n RANKS bench_collectives [MIB...]
//
// Sizes are those of a rank's piece (gather, reduce), of the array (all-reduce), or of all the rows that a rank sends.
// The time of a call is that of the slowest rank, from a barrier on; all three take turns.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "bench/measure_ranks.h"
#include "comm/world.h"

namespace tessera::bench {
namespace {

using comm::ElementType;
using comm::Strided;
using Floats = std::vector<float>;

// One comparison. `ours` and `mpi` leave the same values in `our_result` and `mpi_result` when they are called once.
struct Comparison {
  std::string name;
  std::int64_t bytes = 0;     // its size
  std::int64_t received = 0;  // bytes that this rank receives
  std::string reference;
  std::function<void()> ours, mpi;
  Floats *our_result = nullptr, *mpi_result = nullptr;
};

void compare(const Comparison& c, bool prints) {
  c.ours();
  c.mpi();
  base::expect(*c.our_result == *c.mpi_result, "{} differs from {}", c.name, c.reference);
  const auto bytes = static_cast<std::size_t>(c.received);
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  std::vector<double> ours, mpi, copy;
  constexpr double budget = 0.6;
  double spent = 0;
  while (ours.size() < 5 || (spent < budget && ours.size() < 300)) {
    ours.push_back(time_of(c.ours));
    mpi.push_back(time_of(c.mpi));
    copy.push_back(time_of([&] { std::memcpy(to.data(), from.data(), bytes); }));
    spent += ours.back() + mpi.back() + copy.back();
  }
  if (!prints) return;
  fmt::print("| {} | {} | {:.3f} ms | {}: {:.3f} ms | {:.2f} | {:.3f} ms | {:.2f} |\n", c.name,
             base::format_bytes(static_cast<std::uint64_t>(c.bytes)), 1e3 * median(ours), c.reference,
             1e3 * median(mpi), median(mpi) / median(ours), 1e3 * median(copy), median(copy) / median(ours));
  std::fflush(stdout);
}

// A tensor [rows, columns x 64] of float32 cut along its columns, the last block a third shorter than the others.
class CutTensor {
 public:
  CutTensor(std::int64_t rows, std::int64_t piece_bytes, std::int64_t ranks) : rows_(rows), ranks_(ranks) {
    const auto columns = piece_bytes / 4 / 64 / rows;
    block_ = columns * 64;
    stride_ = (ranks * columns - columns / 3) * 64;
    data.resize(static_cast<std::size_t>(rows * stride_), 1.0F);
  }
  [[nodiscard]] Strided piece(std::int64_t k) {
    const auto begin = k * block_;
    return {data.data() + begin, rows_, std::min(block_, stride_ - begin), stride_};
  }
  [[nodiscard]] std::vector<Strided> pieces() {
    std::vector<Strided> all;
    for (std::int64_t k = 0; k < ranks_; ++k) all.push_back(piece(k));
    return all;
  }

  Floats data;

 private:
  std::int64_t rows_, ranks_, block_ = 0, stride_ = 0;
};

std::size_t elements_of(const Strided& piece) { return static_cast<std::size_t>(piece.rows * piece.row_elements); }

// Copies the runs of a piece to consecutive memory, or back.
enum class Way { out, in };
void copy_runs(const Strided& piece, float* consecutive, Way way) {
  const auto run = static_cast<std::size_t>(piece.row_elements);
  for (std::int64_t row = 0; row < piece.rows; ++row, consecutive += run) {
    auto* in_place = static_cast<float*>(piece.data) + row * piece.stride_elements;
    if (way == Way::out) std::memcpy(consecutive, in_place, run * sizeof(float));
    if (way == Way::in) std::memcpy(in_place, consecutive, run * sizeof(float));
  }
}

void add(Floats& sum, const float* values) {
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
}

// Counts and places of the pieces when they are packed one after the other.
struct Packing {
  std::vector<int> counts, places;
  explicit Packing(const std::vector<Strided>& pieces) {
    int place = 0;
    for (const auto& piece : pieces) {
      counts.push_back(static_cast<int>(elements_of(piece)));
      places.push_back(place);
      place += counts.back();
    }
  }
};

class Bench {
 public:
  Bench(comm::Communicator& group, std::int64_t bytes)
      : group_(group), n_(group.size()), rank_(static_cast<std::size_t>(group.rank())), bytes_(bytes) {}

  void gather(const std::string& name, std::int64_t rows) {
    CutTensor ours(rows, bytes_, n_), theirs(rows, bytes_, n_);
    const auto pieces = ours.pieces(), places = theirs.pieces();
    const Packing packing(places);
    Floats own(elements_of(places[rank_])), packed(ours.data.size());
    for (auto* tensor : {&ours, &theirs}) {
      std::fill(own.begin(), own.end(), static_cast<float>(rank_ + 2));
      copy_runs(tensor->pieces()[rank_], own.data(), Way::in);
    }
    const auto mpi = [&] {
      copy_runs(places[rank_], own.data(), Way::out);
      MPI_Allgatherv(own.data(), packing.counts[rank_], MPI_FLOAT, packed.data(), packing.counts.data(),
                     packing.places.data(), MPI_FLOAT, MPI_COMM_WORLD);
      for (std::size_t k = 0; k < places.size(); ++k)
        if (k != rank_) copy_runs(places[k], packed.data() + packing.places[k], Way::in);
    };
    run({.name = name,
         .bytes = bytes_,
         .received = static_cast<std::int64_t>((ours.data.size() - own.size()) * sizeof(float)),
         .reference = "Allgatherv, copy",
         .ours =
             [&] {
               group_.gather_blocks({{ElementType::float32, pieces}}, nullptr)->wait();
             },
         .mpi = mpi,
         .our_result = &ours.data,
         .mpi_result = &theirs.data});
  }

  void reduce(const std::string& name, std::int64_t rows) {
    CutTensor tensor(rows, bytes_, n_);
    const auto pieces = tensor.pieces();
    const Packing packing(pieces);
    const auto own = elements_of(pieces[rank_]);
    Floats our_sum(own), mpi_sum(own), packed(tensor.data.size()), arrived(own * static_cast<std::size_t>(n_));
    const auto pack = [&] {
      for (std::size_t k = 0; k < pieces.size(); ++k) copy_runs(pieces[k], packed.data() + packing.places[k], Way::out);
    };
    const Strided target{our_sum.data(), rows, pieces[rank_].row_elements, pieces[rank_].row_elements};
    Comparison c{
        .name = name,
        .bytes = bytes_,
        .received = static_cast<std::int64_t>(own * sizeof(float)) * (n_ - 1),
        .reference = rows > 1 ? "pack, Reduce_scatter, add" : "Reduce_scatter, add",
        .ours =
            [&] {
              group_.reduce_blocks({{ElementType::float32, pieces, ElementType::float32, target}}, nullptr)->wait();
            },
        .mpi =
            [&] {
              if (rows > 1) pack();
              MPI_Reduce_scatter(rows > 1 ? packed.data() : tensor.data.data(), arrived.data(), packing.counts.data(),
                                 MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
              add(mpi_sum, arrived.data());
            },
        .our_result = &our_sum,
        .mpi_result = &mpi_sum};
    run(c);
    std::vector<int> counts(pieces.size(), static_cast<int>(own)), places;
    for (std::size_t k = 0; k < pieces.size(); ++k) places.push_back(static_cast<int>(k * own));
    c.reference = rows > 1 ? "pack, Alltoallv, add" : "Alltoallv, add";
    c.mpi = [&] {
      if (rows > 1) pack();
      MPI_Alltoallv(rows > 1 ? packed.data() : tensor.data.data(), packing.counts.data(), packing.places.data(),
                    MPI_FLOAT, arrived.data(), counts.data(), places.data(), MPI_FLOAT, MPI_COMM_WORLD);
      for (const auto place : places) add(mpi_sum, arrived.data() + place);
    };
    std::fill(our_sum.begin(), our_sum.end(), 0.0F);
    std::fill(mpi_sum.begin(), mpi_sum.end(), 0.0F);
    run(c);
  }

  void all_reduce() {
    Floats ours(elements(bytes_)), theirs(elements(bytes_));
    run({.name = "all_reduce",
         .bytes = bytes_,
         .received = 2 * bytes_ * (n_ - 1) / n_,
         .reference = "Allreduce",
         .ours =
             [&] {
               group_
                   .all_reduce(ours.data(), static_cast<std::int64_t>(ours.size()), ElementType::float32,
                               comm::ReduceOperation::add, nullptr)
                   ->wait();
             },
         .mpi =
             [&] {
               MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(theirs.size()), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
             },
         .our_result = &ours,
         .mpi_result = &theirs});
  }

  void rows() {
    constexpr std::int64_t width = 256;
    const auto each = bytes_ / (width * 4) / n_;
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(n_), each);
    std::vector<int> elements(counts.size(), static_cast<int>(each * width)), places;
    for (std::size_t k = 0; k < counts.size(); ++k) places.push_back(static_cast<int>(k) * elements[0]);
    const Floats sent(static_cast<std::size_t>(each * n_ * width), static_cast<float>(rank_));
    Floats ours(sent.size()), theirs(sent.size());
    run({.name = "all_to_all_rows",
         .bytes = bytes_,
         .received = each * width * 4 * (n_ - 1),
         .reference = "Alltoallv",
         .ours =
             [&] {
               group_.all_to_all_rows(sent.data(), counts, ours.data(), counts, width, ElementType::float32, nullptr)
                   ->wait();
             },
         .mpi =
             [&] {
               MPI_Alltoallv(sent.data(), elements.data(), places.data(), MPI_FLOAT, theirs.data(), elements.data(),
                             places.data(), MPI_FLOAT, MPI_COMM_WORLD);
             },
         .our_result = &ours,
         .mpi_result = &theirs});
  }

 private:
  static std::size_t elements(std::int64_t bytes) { return static_cast<std::size_t>(bytes) / sizeof(float); }
  void run(const Comparison& comparison) const { compare(comparison, rank_ == 0); }

  comm::Communicator& group_;
  std::int64_t n_;
  std::size_t rank_;
  std::int64_t bytes_;
};

base::ExitCode run(const comm::World& world, const std::vector<double>& mebibytes) {
  base::require(world.size() > 1, "one rank alone communicates with nobody; use mpirun -n 2");
  if (world.rank() == 0)
    fmt::print(
        "| {} ranks | size | ours | Open MPI | ratio | memcpy | ratio |\n| --- | --- | --- | --- | --- | --- | "
        "--- |\n",
        world.size());
  for (const auto size : mebibytes) {
    Bench bench(*world.communicator(), static_cast<std::int64_t>(size * (1 << 20)));
    bench.gather("gather_blocks", 1);
    bench.gather("gather_blocks, 32 runs", 32);
    bench.reduce("reduce_blocks", 1);
    bench.reduce("reduce_blocks, 32 runs", 32);
    bench.all_reduce();
    bench.rows();
  }
  return base::ExitCode::done;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera;
  std::vector<double> mebibytes;
  for (int k = 1; k < argc; ++k) mebibytes.push_back(std::atof(argv[k]));
  if (mebibytes.empty()) mebibytes = {0.0625, 1, 16, 64};
  comm::World world(comm::read_launch());
  return static_cast<int>(world.run([&] { return bench::run(world, mebibytes); }));
}
