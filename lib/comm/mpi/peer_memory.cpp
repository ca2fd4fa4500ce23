#include "comm/mpi/peer_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>

#include "base/error.h"
#include "comm/mpi/requests.h"

namespace tessera::comm {

namespace {

constexpr std::size_t most_runs = 256;  // per call; Linux accepts 1024

// Calls process_vm_readv once, for the first `most_runs` runs. Returns the bytes copied, or -1 with errno set.
ssize_t read_once(pid_t process, const std::vector<Run>& from, const std::vector<Run>& to) {
  std::array<iovec, most_runs> remote, local;
  const auto fill = [](const std::vector<Run>& runs, std::array<iovec, most_runs>& vectors) {
    const auto count = std::min(runs.size(), most_runs);
    for (std::size_t k = 0; k < count; ++k) vectors[k] = {runs[k].data, static_cast<std::size_t>(runs[k].bytes)};
    return count;
  };
  const auto remote_count = fill(from, remote), local_count = fill(to, local);
  return ::process_vm_readv(process, local.data(), local_count, remote.data(), remote_count, 0);
}

// Drops the first `bytes` of runs.
void drop(std::vector<Run>& runs, std::int64_t bytes) {
  auto whole = runs.begin();
  for (; whole != runs.end() && whole->bytes <= bytes; ++whole) bytes -= whole->bytes;
  if (bytes > 0) {
    whole->data += bytes;
    whole->bytes -= bytes;
  }
  runs.erase(runs.begin(), whole);
}

// Tells the other ranks of a host where they can try to read this rank's token.
struct Invitation {
  std::int64_t world_rank, process, token_address, token;
};

bool can_read(const Invitation& of) {
  std::int64_t token = 0;
  const std::vector<Run> from{{reinterpret_cast<std::byte*>(of.token_address), sizeof token}};
  const std::vector<Run> to{{reinterpret_cast<std::byte*>(&token), sizeof token}};
  return read_once(static_cast<pid_t>(of.process), from, to) == sizeof token && token == of.token;
}

std::int64_t random_token() {
  std::random_device random;
  return static_cast<std::int64_t>(std::uint64_t{random()} << 32 | random());
}

std::vector<Invitation> invite_all(MPI_Comm host, const Invitation& own) {
  int ranks = 0;
  MPI_Comm_size(host, &ranks);
  std::vector<Invitation> all(static_cast<std::size_t>(ranks));
  constexpr int bytes = sizeof(Invitation);
  check_mpi(MPI_Allgather(&own, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, host), "MPI_Allgather");
  return all;
}

}  // namespace

PeerMemory::PeerMemory(MPI_Comm world, std::int64_t least_bytes) : least_bytes_(least_bytes) {
  base::expect(0 <= least_bytes && least_bytes <= std::int64_t{1} << 50, "reading from {} bytes on", least_bytes);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  processes_.resize(static_cast<std::size_t>(ranks));
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  const std::int64_t token = random_token();
  const auto all = invite_all(host, {.world_rank = rank,
                                     .process = ::getpid(),
                                     .token_address = reinterpret_cast<std::int64_t>(&token),
                                     .token = token});
  int all_can = std::all_of(all.begin(), all.end(), can_read) ? 1 : 0;
  // This all-reduce also keeps each token alive until every rank has tried to read it.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all_can, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
  MPI_Comm_free(&host);
  if (all_can == 0) return;
  for (const auto& invitation : all)
    processes_[static_cast<std::size_t>(invitation.world_rank)] = static_cast<pid_t>(invitation.process);
}

bool PeerMemory::reaches(int rank, std::int64_t bytes) const {
  return bytes > 0 && bytes >= least_bytes_ && process(rank) != 0;
}

bool PeerMemory::is_worth_reading(const ByteSequence& sequence) const {
  constexpr std::int64_t runs_at_least_bytes = 64;  // with least_bytes_ of 1 MiB, runs of 16 KiB on average
  return sequence.bytes() / sequence.runs() >= least_bytes_ / runs_at_least_bytes;
}

void PeerMemory::read(int rank, const ByteSequence& source, std::int64_t begin, std::int64_t end,
                      const std::vector<Run>& target) const {
  auto from = source.runs(begin, end), to = target;
  while (begin < end) {
    const auto copied = read_once(process(rank), from, to);
    if (copied <= 0)
      throw base::Error(base::ExitCode::rank_failed,
                        fmt::format("reading {} bytes of rank {}'s memory (process {}) failed: {}", end - begin, rank,
                                    process(rank), std::generic_category().message(copied < 0 ? errno : 0)));
    begin += copied;
    if (begin == end) return;
    drop(from, copied);
    drop(to, copied);
  }
}

}  // namespace tessera::comm
