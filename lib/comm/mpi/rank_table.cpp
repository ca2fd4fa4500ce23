#include "comm/mpi/rank_table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "base/clock.h"
#include "base/quantity.h"
#include "comm/mpi/requests.h"

namespace tessera::comm {

namespace {

template <std::size_t size>
void copy_cut(std::string_view text, char (&to)[size]) {
  const auto length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

struct Label {
  char text[256] = {};
};

// A value that one thread writes and any process reads (a seqlock): the version is odd during a write, and a reader
// copies the value again if the version has changed.
template <class T>
class Published {
 public:
  void write(const T& value) {
    const auto version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    value_ = value;
    version_.store(version + 2, std::memory_order_release);
  }
  // Gives up after 100 tries and returns a copy that may be torn, which only a message shows.
  [[nodiscard]] T read() const {
    constexpr int most_tries = 100;
    T copy;
    for (int tries = 0; tries < most_tries; ++tries) {
      const auto before = version_.load(std::memory_order_acquire);
      copy = value_;
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
    }
    return copy;
  }

 private:
  std::atomic<std::uint32_t> version_{0};
  T value_;
};

}  // namespace

struct alignas(64) RankTable::Row {
  std::atomic<bool> last_word_claimed{false};  // used in the first row only
  int world_rank = 0;
  pid_t process = 0;
  Published<Whereabouts> whereabouts;
  Published<Label> label;
  Published<Label> disk_work;
};

void Whereabouts::set_operation(std::string_view text) { copy_cut(text, operation); }

RankTable::RankTable(MPI_Comm world) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
  int world_rank = 0;
  MPI_Comm_rank(world, &world_rank);
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &host_), "MPI_Comm_split_type");
  MPI_Comm_rank(host_, &local_rank_);
  MPI_Comm_size(host_, &local_ranks_);
  const auto bytes = local_rank_ == 0 ? static_cast<MPI_Aint>(sizeof(Row)) * (local_ranks_ + 1) : 0;
  void* own = nullptr;
  check_mpi(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, host_, &own, &window_), "MPI_Win_allocate_shared");
  MPI_Aint size = 0;
  int unit = 0;
  void* first = nullptr;
  check_mpi(MPI_Win_shared_query(window_, 0, &size, &unit, &first), "MPI_Win_shared_query");
  // MPI promises no alignment. The memory has the same offset within a page on every rank, so all align it alike.
  auto space = static_cast<std::size_t>(size);
  rows_ = static_cast<Row*>(std::align(alignof(Row), sizeof(Row), first, space));
  auto* mine = new (rows_ + local_rank_) Row;
  mine->world_rank = world_rank;
  mine->process = ::getpid();
  check_mpi(MPI_Barrier(host_), "MPI_Barrier");
}

RankTable::~RankTable() {
  if (unwinding_.is_under_way()) return;
  MPI_Win_free(&window_);
  MPI_Comm_free(&host_);
}

RankTable::Row& RankTable::row(int local_rank) const { return rows_[local_rank]; }

int RankTable::first_rank() const { return row(0).world_rank; }

void RankTable::write(const Whereabouts& whereabouts) { row(local_rank_).whereabouts.write(whereabouts); }

void RankTable::write_label(std::string_view label) {
  Label cut;
  copy_cut(label, cut.text);
  row(local_rank_).label.write(cut);
}

void RankTable::write_disk_work(std::string_view work) {
  Label cut;
  copy_cut(work, cut.text);
  row(local_rank_).disk_work.write(cut);
}

std::string RankTable::label() const { return row(local_rank_).label.read().text; }

std::string RankTable::describe() const {
  constexpr int most_lines = 16;
  std::string text;
  for (int k = 0; k < std::min(local_ranks_, most_lines); ++k) {
    const auto& of = row(k);
    const auto copy = of.whereabouts.read();
    const std::string label = of.label.read().text, disk_work = of.disk_work.read().text;
    const auto age = base::format_seconds(base::seconds_now() - copy.since);
    const std::string what = copy.under_way > 0 ? fmt::format("in {} for {}", copy.operation, age)
                             : copy.operation[0] == '\0'
                                 ? std::string("in no collective yet")
                                 : fmt::format("in no collective for {}, after {}", age, copy.operation);
    text += fmt::format("\n  rank {} (process {}){}{}: {}{}{}", of.world_rank, of.process, label.empty() ? "" : ", at ",
                        label, what, disk_work.empty() ? "" : "; on a disk: ", disk_work);
  }
  if (local_ranks_ > most_lines) text += fmt::format("\n  and {} more ranks of this host", local_ranks_ - most_lines);
  return text;
}

bool RankTable::claim_last_word() { return !last_word().exchange(true); }

std::atomic<bool>& RankTable::last_word() { return row(0).last_word_claimed; }

}  // namespace tessera::comm
