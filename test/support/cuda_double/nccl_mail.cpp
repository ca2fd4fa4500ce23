#include "support/cuda_double/nccl_mail.h"

#include <fmt/format.h>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/nccl_carrier.h"
#include "support/cuda_double/nccl_founding.h"

namespace tessera::test::cuda_double {

Mail& mail() {
  static Mail mail;
  return mail;
}

Mail::Mail() = default;
Mail::~Mail() = default;

Carrier& Mail::carrier() {
  std::call_once(started_, [this] {
    carrier_ =
        std::make_unique<Carrier>([this](const Address& address, Bytes body) { deliver(address, std::move(body)); });
    if (carrier_->processes() > 1) name_process(fmt::format("rank {}: ", carrier_->process()));
  });
  return *carrier_;
}

int Mail::process() { return carrier().process(); }

void Mail::send(int process, const Address& address, Bytes body) {
  if (process == carrier().process())
    deliver(address, std::move(body));
  else
    carrier().send(process, address, body);
}

void Mail::deliver(const Address& address, Bytes body) {
  if (address.channel == Channel::creation && address.to == founder) {
    found_communicator(body);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    boxes_[address].push_back(std::move(body));
  }
  arrived_.notify_all();
}

std::optional<Bytes> Mail::receive(const Address& address, Clock::time_point deadline,
                                   const std::atomic<bool>& given_up) {
  std::unique_lock lock(mutex_);
  const auto has_mail = [&] { return boxes_.contains(address) && !boxes_[address].empty(); };
  arrived_.wait_until(lock, deadline, [&] { return given_up || has_mail(); });
  if (!has_mail()) return std::nullopt;
  auto& box = boxes_[address];
  auto body = std::move(box.front());
  box.pop_front();
  if (box.empty()) boxes_.erase(address);
  return body;
}

bool Mail::has(const Address& address) {
  const std::lock_guard lock(mutex_);
  return boxes_.contains(address);
}

void Mail::wake() {
  { const std::lock_guard lock(mutex_); }
  arrived_.notify_all();
}

}  // namespace tessera::test::cuda_double
