// One collective operation on its way: what it moves, and who waits for it.
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
  // `phases` run one after the other, their messages under `tag` and the next one. `keep` lives until the operation has
  // ended here, whoever drops the handle.
  // `number` counts the operations of the group: ranks that are at different ones find out.
  Task(const Purpose& purpose, std::int64_t number, int tag, std::vector<Transfer> phases, KeepAlive keep);

  // For the thread that asked: returns when the operation has ended. Never, if it has failed: messages may still come
  // for memory that the caller would free, so whoever finds a failure() ends the job.
  void wait();
  // After wait().
  [[nodiscard]] Span span() const { return {started_at_, ended_at_}; }

  // The rest is for the thread that owns the requests.
  void start(Requests& requests);
  void ended(Direction direction, std::size_t stream, std::int64_t message, std::int64_t bytes) override;
  void failed(std::exception_ptr error) override;
  // Copies or sums some of what has arrived; false if there was nothing to do.
  bool advance();
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] const std::string& failure() const { return failure_; }  // what made it fail; empty: nothing
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
  double started_at_ = 0, ended_at_ = 0;  // for others after has_ended_
  bool is_over_ = false;
  std::string failure_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;  // guarded by mutex_
  KeepAlive keep_;          // guarded by mutex_
};

}  // namespace tessera::comm
