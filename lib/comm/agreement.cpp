#include "comm/agreement.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "device/torch_error.h"

namespace tessera::comm {

std::vector<std::int64_t> numbers_of_ranks(Communicator& group, std::int64_t own) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(group.size()), 0);
  numbers[static_cast<std::size_t>(group.rank())] = own;
  group.all_reduce(numbers.data(), group.size(), ElementType::int64, ReduceOperation::add, nullptr)->wait();
  return numbers;
}

std::string text_of_rank(Communicator& group, std::int64_t root, const std::string& own) {
  auto bytes = static_cast<std::int64_t>(own.size());
  group.broadcast(&bytes, 1, ElementType::int64, root, nullptr)->wait();
  std::vector<std::int32_t> words((static_cast<std::size_t>(bytes) + 3) / 4);
  if (group.rank() == root) std::memcpy(words.data(), own.data(), own.size());
  group.broadcast(words.data(), static_cast<std::int64_t>(words.size()), ElementType::int32, root, nullptr)->wait();
  return {reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(bytes)};
}

Failure describe_failure(const std::exception_ptr& error) {
  if (auto message = device::torch_message(error)) return {base::ExitCode::rank_failed, std::move(*message)};
  try {
    std::rethrow_exception(error);
  } catch (const base::Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {base::ExitCode::rank_failed,
            "this process is out of memory; give it more, or start fewer ranks on its host"};
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return {base::ExitCode::rank_failed, e.what()};
    return {base::ExitCode::rank_failed,
            fmt::format("this process cannot start another thread ({}); raise its limit of memory (ulimit -v) or of "
                        "threads (ulimit -u), or start fewer ranks on its host",
                        e.what())};
  } catch (const std::exception& e) {
    return {base::ExitCode::rank_failed, e.what()};
  } catch (...) {
    return {base::ExitCode::rank_failed, "an exception of unknown type"};
  }
}

void agree(Communicator& group, const std::optional<Failure>& failure) {
  // The lower the rank, the larger its voice; 0: all is well.
  std::int32_t voice = failure ? static_cast<std::int32_t>(group.size() - group.rank()) : 0;
  group.all_reduce(&voice, 1, ElementType::int32, ReduceOperation::max, nullptr)->wait();
  if (voice == 0) return;
  const auto speaker = group.size() - voice;
  std::int64_t code = failure ? static_cast<std::int64_t>(failure->code) : 0;
  group.broadcast(&code, 1, ElementType::int64, speaker, nullptr)->wait();
  const auto message = text_of_rank(group, speaker, failure ? failure->message : std::string());
  throw AgreedError(static_cast<base::ExitCode>(code),
                    group.size() == 1 ? message : fmt::format("rank {}: {}", speaker, message));
}

void agree_on(Communicator& group, const std::function<void()>& action) {
  std::optional<Failure> failure;
  try {
    action();
  } catch (...) {
    failure = describe_failure(std::current_exception());
  }
  agree(group, failure);
}

}  // namespace tessera::comm
