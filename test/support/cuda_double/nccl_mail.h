// Messages between the ranks of the NCCL double: boxes in each process, and MPI between processes.
//
// A thread of its own uses MPI, with a tag that nothing else uses on MPI_COMM_WORLD, from the first message until
// MPI_Finalize. Without MPI there is one process.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tessera::test::cuda_double {

enum class Channel : std::uint8_t { creation, split, collective, point_to_point, matched };

// Messages of one address arrive in the order in which they were sent.
struct Address {
  std::uint64_t communicator = 0;
  std::int32_t from = 0, to = 0;  // ranks of the communicator
  Channel channel{};
  auto operator<=>(const Address&) const = default;
};

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

template <class T>
void append(Bytes& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(T));
}

template <class T>
[[nodiscard]] T value_at(const Bytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class Carrier;

class Mail {
 public:
  Mail();
  ~Mail();
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  // For any thread.
  [[nodiscard]] int process();
  void send(int process, const Address& address, Bytes body);
  // Waits for the next message of `address`; returns none if `deadline` passes or `given_up` becomes true (after
  // wake()).
  [[nodiscard]] std::optional<Bytes> receive(const Address& address, Clock::time_point deadline,
                                             const std::atomic<bool>& given_up);
  [[nodiscard]] bool has(const Address& address);
  void wake();

 private:
  Carrier& carrier();  // started when first needed
  void deliver(const Address& address, Bytes body);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Address, std::deque<Bytes>> boxes_;
  std::once_flag started_;
  std::unique_ptr<Carrier> carrier_;
};

[[nodiscard]] Mail& mail();

}  // namespace tessera::test::cuda_double
