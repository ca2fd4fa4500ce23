#include "comm/mpi/life_signs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/quantity.h"
#include "comm/mpi/requests.h"

namespace tessera::comm {

namespace {

constexpr double questions_in_a_timeout = 20;

std::string describe_work(int rank, const std::string& work, double quiet_s) {
  return fmt::format("rank {} is at {}, without progress for {}", rank, work, base::format_seconds(quiet_s));
}

}  // namespace

LifeSigns::LifeSigns(MPI_Comm communicator, int tag, double timeout_s, RankTable& table)
    : communicator_(communicator), tag_(tag), timeout_s_(timeout_s), table_(table) {
  static_assert(std::is_trivially_copyable_v<Letter>);
  check_mpi(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
  receive_next();
}

LifeSigns::~LifeSigns() {
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
  for (auto& sent : sent_) {
    int ended = 0;
    MPI_Test(&sent->request, &ended, MPI_STATUS_IGNORE);
    if (ended != 0) continue;
    // No rank will receive it, but MPI may still read its memory, so the memory is never freed.
    MPI_Request_free(&sent->request);
    static_cast<void>(sent.release());
  }
}

void LifeSigns::receive_next() {
  check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, tag_, communicator_, &receive_),
            "MPI_Irecv");
}

void LifeSigns::look(double now) {
  now_ = now;
  note_own_work();
  std::erase_if(sent_, [](const auto& sent) {
    int ended = 0;
    check_mpi(MPI_Test(&sent->request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    return ended != 0;
  });
  while (true) {
    int ended = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&receive_, &ended, &status), "MPI_Test");
    if (ended == 0) return;
    const auto letter = incoming_;
    receive_next();
    read(letter, status.MPI_SOURCE);
  }
}

// A long call to a disk counts as one sign at each look, until `patience` runs out.
void LifeSigns::note_own_work() {
  const auto disk = base::disk_signs();
  const bool has_gone_on = disk.count != std::exchange(disk_, disk).count;
  if (has_gone_on || !disk.is_at_work) disk_went_on_at_ = now_;
  const auto quiet_s = now_ - disk_went_on_at_;
  if (has_gone_on || (disk.is_at_work && quiet_s < patience * timeout_s_)) ++own_count_;
  self_.work = disk.is_at_work ? base::describe_disk_work() : std::string();
  self_.quiet_s = quiet_s;
  table_.write_disk_work(self_.work);
  const bool is_awaited = self_.asked_at >= 0 && now_ - self_.asked_at < timeout_s_;
  if (is_awaited) warn(rank_, self_);
}

// Every waiting rank calls this, but only one rank of the job prints its log: one that waits for the rank at work, or
// that rank itself.
void LifeSigns::warn(int rank, Peer& peer) {
  if (peer.quiet_s < timeout_s_ || peer.work.empty() || peer.work == peer.warned_of) return;
  peer.warned_of = peer.work;
  base::log_warning("{} (train.accelerator.timeout_s); other ranks wait for it, and end the job if that lasts for {}",
                    describe_work(rank, peer.work, peer.quiet_s), base::format_seconds((patience + 1) * timeout_s_));
}

void LifeSigns::ask(std::span<const int> ranks) {
  for (const auto rank : ranks) {
    auto& peer = peers_[rank];
    const bool is_due = peer.asked_at < 0 || now_ - peer.asked_at > timeout_s_ / questions_in_a_timeout;
    if (rank == rank_ || !peer.has_answered || !is_due) continue;
    peer.asked_at = now_;
    peer.has_answered = false;
    send(rank, Kind::question);
  }
}

void LifeSigns::send(int rank, Kind kind) {
  auto sent = std::make_unique<Sent>();
  auto& letter = sent->letter;
  letter.kind = kind;
  letter.own = {rank_, own_count_};
  for (std::size_t k = 0; k < last_heard_.size(); ++k)
    letter.passed_on[k] = {last_heard_[k], counts_.at(last_heard_[k])};
  letter.quiet_s = self_.quiet_s;
  const auto length = std::min(self_.work.size(), sizeof letter.work - 1);
  std::memcpy(letter.work, self_.work.data(), length);
  check_mpi(MPI_Isend(&letter, sizeof letter, MPI_BYTE, rank, tag_, communicator_, &sent->request), "MPI_Isend");
  sent_.push_back(std::move(sent));
}

void LifeSigns::read(const Letter& letter, int from) {
  if (letter.kind == Kind::question) {
    self_.asked_at = now_;
    return send(from, Kind::answer);
  }
  auto& peer = peers_[from];
  peer.has_answered = true;
  peer.work = letter.work;
  peer.quiet_s = letter.quiet_s;
  hear(letter.own);
  for (const auto& sign : letter.passed_on) hear(sign);
  warn(from, peer);
}

void LifeSigns::hear(const Sign& sign) {
  if (sign.rank < 0 || sign.rank == rank_) return;
  auto& count = counts_[sign.rank];
  if (sign.count <= count) return;  // already known
  count = sign.count;
  ++heard_;
  std::erase(last_heard_, sign.rank);
  last_heard_.push_front(sign.rank);
  if (last_heard_.size() > std::size(Letter().passed_on)) last_heard_.pop_back();
}

std::string LifeSigns::describe(std::span<const int> ranks) const {
  std::string text;
  for (const auto rank : ranks)
    if (const auto peer = peers_.find(rank); peer != peers_.end() && !peer->second.work.empty())
      text += describe_work(rank, peer->second.work, peer->second.quiet_s) + "; ";
  return text;
}

}  // namespace tessera::comm
