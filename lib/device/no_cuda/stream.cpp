#include "device/stream.h"

#include "base/error.h"

namespace tessera::device {

namespace {

// Never called: find_gpus() finds no GPU.
[[noreturn]] void refuse(const std::source_location& where = std::source_location::current()) {
  base::throw_logic_error("a stream of a GPU in a program that was built without CUDA", where);
}

}  // namespace

void Event::synchronize() const {
  if (event_ != nullptr) refuse();
}

bool Event::has_passed() const {
  if (event_ != nullptr) refuse();
  return true;
}

double Event::seconds_since(const Event&) const { refuse(); }

Stream Stream::compute() { refuse(); }

Stream Stream::lane() { refuse(); }

void Stream::wait(const Event&) const { refuse(); }

Event Stream::record() const { refuse(); }

void Stream::synchronize() const { refuse(); }

}  // namespace tessera::device
