// If this failed, ranks would read wrong bytes from each other's memory, or not notice that a read failed.
#include "comm/mpi/peer_memory.h"

#include <mpi.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/skips.h"

namespace tessera::test {
namespace {

using comm::ByteSequence;
using comm::ElementType;
using comm::PeerMemory;

// Without MPI there is no other rank to read.
bool is_alone() { return world().size() == 1; }

// Returns whether the kernel lets this rank read the memory of the others.
bool may_read(const PeerMemory& memory) {
  if (memory.reaches(world().rank() == 0 ? 1 : 0, 1)) return true;
  if (world().rank() == 0) note_skip("reading another rank's memory", "the kernel does not let ranks read each other");
  return false;
}

// The value that rank `rank` has at each index of `data`.
std::int32_t value(std::int64_t rank, std::size_t index) {
  return static_cast<std::int32_t>(100'000 * rank) + static_cast<std::int32_t>(index);
}

// 700 rows of 5 of each 7, more runs than one call takes; and 3 elements after a gap.
ByteSequence part_of(std::vector<std::int32_t>& data) {
  ByteSequence part;
  part.append({data.data() + 1, 700, 5, 7}, ElementType::int32);
  part.append({data.data() + 4910, 1, 3, 3}, ElementType::int32);
  return part;
}

// Returns the texts of all ranks, on every rank.
std::vector<std::vector<std::int64_t>> all_words(const std::vector<std::int64_t>& own) {
  std::vector<std::int64_t> flat(own.size() * static_cast<std::size_t>(world().size()));
  comm::GatherBlock block{.type = ElementType::int64, .pieces = {}};
  const auto count = static_cast<std::int64_t>(own.size());
  for (std::int64_t k = 0; k < world().size(); ++k) block.pieces.push_back({flat.data() + k * count, 1, count, count});
  std::copy(own.begin(), own.end(), flat.begin() + static_cast<std::ptrdiff_t>(world().rank() * count));
  world().communicator()->gather_blocks({block}, nullptr)->wait();
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t k = 0; k < world().size(); ++k)
    all.emplace_back(flat.begin() + k * count, flat.begin() + (k + 1) * count);
  return all;
}

TEST_CASE("the ranks of a host can read each other, all or none, and only what is large enough") {
  if (is_alone()) return;
  const PeerMemory memory(MPI_COMM_WORLD, 1000);
  const int own = static_cast<int>(world().rank());
  bool alike = true;
  for (int k = 0; k < static_cast<int>(world().size()); ++k) {
    alike &= memory.reaches(k, 1000) == memory.reaches(own, 1000);
    alike &= !memory.reaches(k, 999) && !memory.reaches(k, 0);
  }
  CHECK_ON_ALL(alike);
}

TEST_CASE("many short runs are not worth reading") {
  if (is_alone()) return;
  const PeerMemory memory(MPI_COMM_WORLD, 6400);  // runs of 100 bytes and more
  ByteSequence short_runs, long_runs, one_run;
  short_runs.append({nullptr, 100, 24, 30}, ElementType::float32);
  long_runs.append({nullptr, 100, 25, 30}, ElementType::float32);
  one_run.append({nullptr, 100, 20, 20}, ElementType::float32);  // no gaps between its rows
  CHECK_ON_ALL(!memory.is_worth_reading(short_runs));
  CHECK_ON_ALL(memory.is_worth_reading(long_runs) && memory.is_worth_reading(one_run));
}

TEST_CASE("strided parts of another rank's memory come into strided places") {
  if (is_alone()) return;
  const PeerMemory memory(MPI_COMM_WORLD, 1);
  if (!may_read(memory)) return;
  std::vector<std::int32_t> data(5000);
  for (std::size_t k = 0; k < data.size(); ++k) data[k] = value(world().rank(), k);
  const auto words = all_words(part_of(data).words());
  const auto neighbour = (world().rank() + 1) % world().size();
  const auto source = ByteSequence::from_words(words[static_cast<std::size_t>(neighbour)]);
  std::vector<std::int32_t> read(5000, -1);
  const auto place = part_of(read);
  // In two parts, cut within a row.
  const std::int64_t cut = 333 * 20 + 8;
  memory.read(static_cast<int>(neighbour), source, 0, cut, place.runs(0, cut));
  memory.read(static_cast<int>(neighbour), source, cut, source.bytes(), place.runs(cut, place.bytes()));
  bool right = source.bytes() == place.bytes();
  for (std::size_t k = 0; k < read.size(); ++k) {
    const bool in_rows = k >= 1 && k < 1 + 700 * 7 && (k - 1) % 7 < 5, in_rest = k >= 4910 && k < 4913;
    right &= read[k] == (in_rows || in_rest ? value(neighbour, k) : -1);
  }
  CHECK_ON_ALL(right);  // and nobody's data goes away before all have read
}

TEST_CASE("a read that fails names the rank and the reason") {
  if (is_alone()) return;
  const PeerMemory memory(MPI_COMM_WORLD, 1);
  if (!may_read(memory)) return;
  ByteSequence nowhere;
  nowhere.append({reinterpret_cast<void*>(8), 1, 2, 2}, ElementType::int32);
  std::int64_t to = 0;
  const auto other = world().rank() == 0 ? 1 : 0;
  std::string error;
  try {
    memory.read(other, nowhere, 0, 8, {{reinterpret_cast<std::byte*>(&to), 8}});
  } catch (const base::Error& failed) {
    if (failed.code() == base::ExitCode::rank_failed) error = failed.what();
  }
  CHECK_ON_ALL(error.find("reading 8 bytes of rank " + std::to_string(other) + "'s memory") == 0);
  CHECK_ON_ALL(error.find("Bad address") != std::string::npos);
}

}  // namespace
}  // namespace tessera::test
