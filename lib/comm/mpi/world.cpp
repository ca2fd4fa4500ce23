#include "comm/world.h"

#include <fmt/format.h>
#include <malloc.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/watched_bytes.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/unwinding.h"

namespace tessera::comm {

namespace {

// By default glibc returns freed blocks above a threshold to the system at once, and each step maps and zeroes them
// again. M_TOP_PAD is not set: it would give each thread's arena 64 MiB at once, and glibc merges an arena's small free
// blocks only when the arena is full, so memory would grow with the steps until every arena was full.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "an unnamed host";
}

void require_mpi_sees(std::int64_t ranks, const Launch& launch) {
  base::require(ranks == launch.ranks,
                "{} ranks were announced ({}), but MPI sees {}: each would take itself for the only one; start them "
                "with mpirun -n {} of the Open MPI that this program was built with, or, where Slurm has PMIx, with "
                "srun --mpi=pmix -n {}",
                launch.ranks, launch.announced_by, ranks, launch.ranks, launch.ranks);
}

std::int64_t largest_tag(MPI_Comm communicator) {
  void* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
  constexpr std::int64_t promised = 32767;
  return found != 0 ? *static_cast<const int*>(value) : promised;
}

// Starts MPI and ends it. MPI returns its errors instead of aborting.
class Started {
 public:
  Started() {
    int provided = 0;
    const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    base::require(result == MPI_SUCCESS, "MPI did not start (MPI_Init_thread returned {})", result);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided == MPI_THREAD_MULTIPLE) return;
    MPI_Finalize();
    base::fail("this MPI was built without MPI_THREAD_MULTIPLE; use one that has it (Open MPI 4 has)");
  }
  ~Started() {
    if (!unwinding_.is_under_way()) MPI_Finalize();
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

 private:
  const Unwinding unwinding_;
};

// A duplicate of MPI_COMM_WORLD for this library alone, which returns errors (MPI_ERRORS_RETURN).
class Channel {
 public:
  Channel() {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
  }
  ~Channel() {
    if (!unwinding_.is_under_way()) MPI_Comm_free(&communicator_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  const Unwinding unwinding_;
};

bool is_mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

std::string name_of(std::int64_t rank) { return fmt::format("rank {} on {}: ", rank, host_name()); }

// Logs the failure, even if the process has no memory left to format a line.
void say(std::int64_t rank, const Failure& failure) noexcept {
  try {
    base::log_error("{}{}", name_of(rank), failure.message);
  } catch (...) {
    constexpr std::string_view line = "error: a rank is out of memory, and ends the job\n";
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  }
}

Failure described(const std::exception_ptr& error) noexcept {
  try {
    return describe_failure(error);
  } catch (...) {
    return {};  // no memory left for a message
  }
}

[[noreturn]] void abort_all(const Failure& failure) {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(failure.code));
  std::abort();
}

}  // namespace

// The members start in the order of their declaration and end in reverse order.
class World::Mpi {
 public:
  explicit Mpi(const WorldOptions& options)
      : table_(channel_.communicator()),
        memory_(channel_.communicator(), options.read_bytes),
        progress_(channel_.communicator(), static_cast<int>(group_limit() * tags_per_group), options.timeout_s, table_,
                  [this](const std::string& reason) {
                    end_job({base::ExitCode::rank_failed, reason});
                  }),
        message_bytes_(options.message_bytes) {
    base::set_speaker(name_of(channel_.rank()), &table_.last_word());
  }
  ~Mpi() { base::set_speaker("", nullptr); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  [[nodiscard]] int size() const { return channel_.size(); }
  [[nodiscard]] int first_rank_of_host() const { return table_.first_rank(); }
  [[nodiscard]] std::string whereabouts() const { return table_.describe(); }

  [[nodiscard]] std::shared_ptr<Communicator> make_communicator() {
    if (size() == 1) return solo_communicator();
    auto groups = std::make_shared<MpiGroups>(MpiGroups{.progress = progress_,
                                                        .table = table_,
                                                        .memory = memory_,
                                                        .message_bytes = message_bytes_,
                                                        .id_limit = group_limit(),
                                                        .next_id = 1});
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    return std::make_shared<MpiCommunicator>(std::move(groups), std::move(all), channel_.rank(), 0);
  }

  // Any thread may call it, also several threads at once.
  [[noreturn]] void end_job(const Failure& failure) {
    if (table_.claim_last_word())
      say(channel_.rank(), failure);
    else
      std::this_thread::sleep_for(std::chrono::seconds(5));  // the rank that spoke ends the job with its own code
    abort_all(failure);
  }

  // See Progress::ask_all.
  [[nodiscard]] std::int64_t ask_all() { return progress_.ask_all(); }

 private:
  // Returns the number of groups that MPI's tags have room for. The tags after theirs are for LifeSigns' letters.
  [[nodiscard]] std::int64_t group_limit() const {
    return (largest_tag(channel_.communicator()) + 1) / tags_per_group - 1;
  }

  Started started_;
  Channel channel_;
  RankTable table_;
  PeerMemory memory_;
  Progress progress_;
  std::int64_t message_bytes_;
};

World::World(const Launch& launch, const WorldOptions& options)
    : timeout_s_(options.timeout_s), communicator_(solo_communicator()) {
  base::expect(options.message_bytes == 0 || is_legal_message(options.message_bytes), "messages of {} bytes",
               options.message_bytes);
  keep_freed_memory();
  if (launch.launcher != Launcher::open_mpi) {
    require_mpi_sees(1, launch);
    return;
  }
  int initialized = 0;
  MPI_Initialized(&initialized);
  base::expect(initialized == 0, "one World a process");
  try {
    mpi_ = std::make_unique<Mpi>(options);
    communicator_ = mpi_->make_communicator();
  } catch (...) {
    // The other ranks are starting their World too, and would wait for this one.
    if (launch.ranks == 1 || !is_mpi_running()) throw;
    const auto failure = described(std::current_exception());
    say(launch.rank, failure);
    abort_all(failure);
  }
  if (const std::int64_t seen = mpi_->size(); seen != launch.ranks) {
    communicator_ = solo_communicator();
    mpi_.reset();  // all ranks that MPI sees come here
    require_mpi_sees(seen, launch);
  }
}

World::~World() {
  if (size() == 1) return;
  if (unwinding_.is_under_way())
    end_job({base::ExitCode::rank_failed, "an exception ends this rank; the other ranks would wait for it"});
  try {
    communicator_->barrier();
  } catch (...) {
    end_job(describe_failure(std::current_exception()));
  }
}

base::ExitCode World::run(const std::function<base::ExitCode()>& body) {
  try {
    return body();
  } catch (const AgreedError& error) {
    if (rank() == 0) base::log_error("{}", error.what());
    return error.code();
  } catch (...) {
    const auto failure = describe_failure(std::current_exception());
    if (size() > 1) end_job(failure);
    base::log_error("{}", failure.message);
    return failure.code;
  }
}

std::int64_t World::first_rank_of_host() const { return mpi_ == nullptr ? 0 : mpi_->first_rank_of_host(); }

std::int64_t World::signs_of_life() { return mpi_ == nullptr ? 0 : mpi_->ask_all(); }

std::string World::whereabouts() const { return mpi_ == nullptr ? "" : mpi_->whereabouts(); }

void World::end_job(const Failure& failure) {
  if (mpi_ != nullptr) mpi_->end_job(failure);
  base::log_error("{}", failure.message);
  std::exit(static_cast<int>(failure.code));
}

}  // namespace tessera::comm
