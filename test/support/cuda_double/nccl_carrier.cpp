#include "support/cuda_double/nccl_carrier.h"

#include <chrono>

namespace tessera::test::cuda_double {

namespace {

constexpr int tag = 31007;
constexpr auto pause_between_looks = std::chrono::microseconds(50);
constexpr auto longest_ending = std::chrono::seconds(5);

// MPI_Finalize begins with the attributes of MPI_COMM_SELF (MPI 3.1, section 8.7.1).
int stop_before_finalize(MPI_Comm, int, void* carrier, void*) {
  static_cast<Carrier*>(carrier)->stop();
  return MPI_SUCCESS;
}

}  // namespace

Carrier::Carrier(Deliver deliver) : deliver_(std::move(deliver)) {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started == 0 || ended != 0) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &process_);
  MPI_Comm_size(MPI_COMM_WORLD, &processes_);
  if (processes_ == 1) return;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop_before_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, this);
  thread_ = std::thread([this] { work(); });
}

Carrier::~Carrier() { stop(); }

void Carrier::send(int process, const Address& address, const Bytes& body) {
  Outgoing outgoing{.process = process, .bytes = {}};
  append(outgoing.bytes, address);
  outgoing.bytes.insert(outgoing.bytes.end(), body.begin(), body.end());
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(outgoing));
  }
  changed_.notify_one();
}

void Carrier::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Carrier::work() {
  auto end = Clock::time_point::max();
  while (true) {
    start_sends();
    bool moved = false;
    while (take_one()) moved = true;
    const bool all_sent = end_sends();
    std::unique_lock lock(mutex_);
    if (stopping_ && end == Clock::time_point::max()) end = Clock::now() + longest_ending;
    if (stopping_ && waiting_.empty() && (all_sent || Clock::now() > end)) return;
    if (!moved && waiting_.empty()) changed_.wait_for(lock, pause_between_looks);
  }
}

void Carrier::start_sends() {
  std::list<Outgoing> next;
  {
    const std::lock_guard lock(mutex_);
    next.swap(waiting_);
  }
  for (auto& one : next)
    MPI_Isend(one.bytes.data(), static_cast<int>(one.bytes.size()), MPI_BYTE, one.process, tag, MPI_COMM_WORLD,
              &one.request);
  under_way_.splice(under_way_.end(), next);
}

bool Carrier::end_sends() {
  under_way_.remove_if([](Outgoing& one) {
    int done = 0;
    MPI_Test(&one.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  return under_way_.empty();
}

bool Carrier::take_one() {
  int found = 0;
  MPI_Message message;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &found, &message, &status);
  if (found == 0) return false;
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  Bytes bytes(static_cast<std::size_t>(count));
  MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, &status);
  const auto address = value_at<Address>(bytes, 0);
  bytes.erase(bytes.begin(), bytes.begin() + sizeof(Address));
  deliver_(address, std::move(bytes));
  return true;
}

}  // namespace tessera::test::cuda_double
