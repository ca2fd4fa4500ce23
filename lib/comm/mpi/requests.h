// MPI's non-blocking messages under way, all on one communicator, and whom to tell when each has ended. MPI is told of
// bytes only. For one thread.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace tessera::comm {

// Throws Error(rank_failed) with MPI's own words unless `result` is MPI_SUCCESS. `call` names what failed.
void check_mpi(int result, const std::string& call);

enum class Direction : std::uint8_t { send, receive };

// Hears how messages ended. Called by Requests::poll only, and may post more.
class RequestOwner {
 public:
  virtual ~RequestOwner() = default;
  // `bytes` is what was sent.
  virtual void ended(Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes) = 0;
  virtual void failed(std::exception_ptr error) = 0;
};

struct Message {
  std::shared_ptr<RequestOwner> owner;
  Direction direction{};
  int peer = 0;  // rank of the communicator
  int tag = 0;
  std::size_t stream = 0;   // for the owner
  std::int64_t number = 0;  // for the owner
  std::byte* data = nullptr;
  int bytes = 0;  // where it is received: that there is room for; no sender sends more
};

class Requests {
 public:
  // `communicator` returns errors (MPI_ERRORS_RETURN) and outlives this.
  explicit Requests(MPI_Comm communicator);

  [[nodiscard]] int rank() const { return rank_; }  // of the communicator
  void post(Message message);
  // Whether none is under way.
  [[nodiscard]] bool empty() const { return requests_.empty(); }
  // Looks once at everything under way. A message that failed is its owner's failure; other errors of MPI are thrown.
  // Returns whether any message ended.
  bool poll();
  // The peers of the messages of `owner` under way, ascending.
  [[nodiscard]] std::vector<int> waiting_for(const RequestOwner& owner) const;

 private:
  void tell(const Message& message, const MPI_Status& status, int error) const;

  MPI_Comm communicator_;
  int rank_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // of requests_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace tessera::comm
