// The non-blocking MPI messages under way on one communicator, and the object to notify when each has ended. Messages
// consist of bytes; MPI does not learn their element types. For one thread.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace tessera::comm {

// Throws Error(rank_failed) with the name `call` and MPI's error text unless `result` is MPI_SUCCESS.
void check_mpi(int result, const std::string& call);

enum class Direction : std::uint8_t { send, receive };

// Is notified when its messages end. Only Requests::poll calls it; it may post more messages.
class RequestOwner {
 public:
  virtual ~RequestOwner() = default;
  // `bytes` is the number of bytes sent.
  virtual void ended(Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes) = 0;
  virtual void failed(std::exception_ptr error) = 0;
};

struct Message {
  std::shared_ptr<RequestOwner> owner;
  Direction direction{};
  int peer = 0;  // rank of the communicator
  int tag = 0;
  std::size_t stream = 0;   // passed back to the owner
  std::int64_t number = 0;  // passed back to the owner
  std::byte* data = nullptr;
  int bytes = 0;  // to send, or the size of the receive buffer, which no sender exceeds
};

class Requests {
 public:
  // `communicator` returns errors (MPI_ERRORS_RETURN) and outlives this.
  explicit Requests(MPI_Comm communicator);

  [[nodiscard]] int rank() const { return rank_; }  // of the communicator
  void post(Message message);
  // Returns whether no message is under way.
  [[nodiscard]] bool empty() const { return requests_.empty(); }
  // Tests all messages under way once, and returns whether any has ended. Reports a failed message to its owner; throws
  // Error(rank_failed) on other errors of MPI.
  bool poll();
  // Returns the peers of `owner`'s messages under way, in ascending order.
  [[nodiscard]] std::vector<int> waiting_for(const RequestOwner& owner) const;

 private:
  void tell(const Message& message, const MPI_Status& status, int error) const;

  MPI_Comm communicator_;
  int rank_ = 0;
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  // messages_[k] belongs to requests_[k]
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace tessera::comm
