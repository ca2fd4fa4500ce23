// One collective operation under way: its transfers, and the means to wait for it.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/transfer.h"
#include "comm/purpose.h"

namespace tessera::comm {

class Task final : public RequestOwner, public std::enable_shared_from_this<Task> {
 public:
  // The operation runs `phases` one after the other; their messages use the tags `tag` and `tag` + 1. It keeps `keep`
  // alive until it has ended here, even if the handle is dropped. `number` counts the group's operations; ranks whose
  // numbers differ report an error.
  Task(const Purpose& purpose, std::int64_t number, int tag, std::vector<Transfer> phases, KeepAlive keep);

  // Returns when the operation has ended; for the thread that started it. It does not return if the operation has
  // failed, since messages may still arrive in memory that the caller would free: code that finds a failure() must end
  // the job.
  void wait();
  // Call it after wait().
  [[nodiscard]] Span span() const { return {started_at_, ended_at_}; }

  // The rest is for the thread that owns the requests.
  void start(Requests& requests);
  void ended(Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes) override;
  void failed(std::exception_ptr error) override;
  // Reads or sums some of the data that is ready; returns false if there was none.
  bool advance();
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }  // why it failed; empty: it has not
  [[nodiscard]] const std::string& description() const { return description_; }
  [[nodiscard]] double started_at() const { return started_at_; }  // base::seconds_now()

 private:
  [[nodiscard]] Posting posting() { return {*requests_, shared_from_this(), operation_, number_, tag_, tag_ + 1}; }
  void start_phases();
  void go_on();
  void end();

  const std::string operation_;
  const std::int64_t number_;
  const int tag_;
  std::vector<Transfer> phases_;
  const std::string description_;
  std::size_t phase_ = 0;
  Requests* requests_ = nullptr;
  double started_at_ = 0, ended_at_ = 0;  // other threads may read them once has_ended_ is true
  bool is_over_ = false;
  std::string failure_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;  // guarded by mutex_
  KeepAlive keep_;          // guarded by mutex_
};

}  // namespace tessera::comm
