#include "comm/mpi/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tessera::comm {

namespace {

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) return fmt::format("MPI error {}", error);
  return {text, static_cast<std::size_t>(length)};
}

[[noreturn]] void fail(const std::string& message) { throw base::Error(base::ExitCode::rank_failed, message); }

// Returns the bytes of a message that has ended. Throws Error(rank_failed) if it failed.
std::int64_t bytes_of(const Message& message, const MPI_Status& status, int error) {
  const bool receives = message.direction == Direction::receive;
  if (error != MPI_SUCCESS)
    fail(fmt::format("{} {} bytes {} rank {} failed: {}", receives ? "receiving" : "sending", message.bytes,
                     receives ? "from" : "to", message.peer, text_of(error)));
  if (!receives) return message.bytes;
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return bytes;
}

}  // namespace

void check_mpi(int result, const std::string& call) {
  if (result != MPI_SUCCESS) fail(fmt::format("{} failed: {}", call, text_of(result)));
}

Requests::Requests(MPI_Comm communicator) : communicator_(communicator) { MPI_Comm_rank(communicator, &rank_); }

void Requests::post(Message message) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (message.direction == Direction::send)
    check_mpi(MPI_Isend(message.data, message.bytes, MPI_BYTE, message.peer, message.tag, communicator_, &request),
              "MPI_Isend");
  else
    check_mpi(MPI_Irecv(message.data, message.bytes, MPI_BYTE, message.peer, message.tag, communicator_, &request),
              "MPI_Irecv");
  requests_.push_back(request);
  messages_.push_back(std::move(message));
}

bool Requests::poll() {
  const auto count = static_cast<int>(requests_.size());
  if (count == 0) return false;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended = 0;
  const int result = MPI_Testsome(count, requests_.data(), &ended, indices_.data(), statuses_.data());
  if (result != MPI_ERR_IN_STATUS) check_mpi(result, "MPI_Testsome");
  if (ended == MPI_UNDEFINED || ended == 0) return false;

  std::vector<Message> told;
  for (int k = 0; k < ended; ++k)
    told.push_back(std::move(messages_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(k)])]));
  std::size_t kept = 0;
  for (std::size_t k = 0; k < requests_.size(); ++k) {
    if (messages_[k].owner == nullptr) continue;  // moved away
    if (kept != k) {
      requests_[kept] = requests_[k];
      messages_[kept] = std::move(messages_[k]);
    }
    ++kept;
  }
  requests_.resize(kept);
  messages_.resize(kept);
  for (std::size_t k = 0; k < told.size(); ++k)
    tell(told[k], statuses_[k], result == MPI_ERR_IN_STATUS ? statuses_[k].MPI_ERROR : MPI_SUCCESS);
  return true;
}

void Requests::tell(const Message& message, const MPI_Status& status, int error) const {
  try {
    message.owner->ended(message.direction, message.stream, message.number, bytes_of(message, status, error));
  } catch (...) {
    message.owner->failed(std::current_exception());
  }
}

std::vector<int> Requests::waiting_for(const RequestOwner& owner) const {
  std::set<int> peers;
  for (const auto& message : messages_)
    if (message.owner.get() == &owner) peers.insert(message.peer);
  return {peers.begin(), peers.end()};
}

}  // namespace tessera::comm
