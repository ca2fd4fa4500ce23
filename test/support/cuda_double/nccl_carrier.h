// Carries messages between processes by MPI.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "support/cuda_double/nccl_mail.h"

namespace tessera::test::cuda_double {

class Carrier {
 public:
  // Called on the carrier's thread.
  using Deliver = std::function<void(const Address&, Bytes)>;
  // If the program uses MPI, it must have started it by now, with MPI_THREAD_MULTIPLE.
  explicit Carrier(Deliver deliver);
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int processes() const { return processes_; }
  // Sends to another process. For any thread.
  void send(int process, const Address& address, const Bytes& body);
  // Sends the remaining messages and carries nothing afterwards. MPI_Finalize calls it as its first step.
  void stop();

 private:
  struct Outgoing {
    int process = 0;
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void work();
  void start_sends();
  bool end_sends();
  bool take_one();

  Deliver deliver_;
  int process_ = 0, processes_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Outgoing> waiting_;
  bool stopping_ = false;
  std::list<Outgoing> under_way_;  // used by thread_ only
  std::thread thread_;
};

}  // namespace tessera::test::cuda_double
