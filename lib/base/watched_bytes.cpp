#include "base/watched_bytes.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tessera::base {
namespace {

// A signal handler reaches only globals. It may use lock-free atomics, and other objects that no longer change.
std::atomic<std::atomic<bool>*> job_has_spoken{nullptr};
std::array<char, 320> speaker_name{};
std::atomic<bool> is_ending{false};
struct sigaction former_action {};
std::int64_t seconds_east = 0;  // local time minus UTC
constexpr std::size_t page_bytes = 4096;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<void*>::is_always_lock_free);

// A line built without heap memory; text beyond its capacity is cut.
class Message {
 public:
  Message& add(std::string_view text) {
    const auto count = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  Message& add(std::uint64_t number, std::size_t digits = 1) {
    std::array<char, 20> reversed{};
    std::size_t count = 0;
    for (; number > 0 || count < digits; number /= 10) reversed[count++] = static_cast<char>('0' + number % 10);
    while (count > 0) add(std::string_view(&reversed[--count], 1));
    return *this;
  }
  // Adds the beginning of an error line of the log: "[23:59:59.123] error ".
  Message& add_beginning() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    constexpr std::int64_t day = 86400, hour = 3600, minute = 60;
    const auto second = static_cast<std::uint64_t>(((now.tv_sec + seconds_east) % day + day) % day);
    add("[").add(second / hour, 2).add(":").add(second / minute % minute, 2).add(":").add(second % minute, 2);
    return add(".").add(static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000, 3).add("] error ");
  }
  void write() const {
    for (std::size_t done = 0; done < size_;) {
      const auto count = ::write(STDERR_FILENO, text_.data() + done, size_ - done);
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  std::array<char, 5000> text_{};
  std::size_t size_ = 0;
};

void tell(const std::string& path, std::size_t size) {
  struct stat now {};
  Message message;
  message.add_beginning().add(speaker_name.data());
  if (::stat(path.c_str(), &now) == 0 && static_cast<std::size_t>(now.st_size) < size) {
    message.add(path).add(" became shorter while it was in use: it had ").add(size).add(" bytes, now it has ");
    message.add(static_cast<std::uint64_t>(now.st_size)).add("; leave it as it is until the run ends\n").write();
    return;
  }
  message.add("cannot read ").add(path).add(", which was opened before: its disk failed, or it was cut and replaced\n");
  message.write();
}

[[noreturn]] void end_process(const std::string& path, std::size_t size) {
  while (is_ending.exchange(true)) ::pause();  // another thread is already ending this process
  auto* const has_spoken = job_has_spoken.load();
  constexpr unsigned patience = 5;
  if (has_spoken == nullptr || !has_spoken->exchange(true))
    tell(path, size);
  else
    ::sleep(patience);  // the rank that printed the message ends the job
  ::_exit(static_cast<int>(ExitCode::rank_failed));
}

}  // namespace

// One watched map. A record is never freed, only used again, because the handler may read any of them at any time.
struct WatchedBytes::Record {
  std::atomic<const std::byte*> begin{nullptr};  // null: not in use
  std::atomic<std::size_t> size{0};
  std::string path;  // does not change while in use
  Record* next = nullptr;
  Record* next_unused = nullptr;
};

class WatchedBytes::Registry {
 public:
  static Record* add(std::span<const std::byte> bytes, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (newest_.load() == nullptr) install();
    auto* const record = unused_ != nullptr ? unused_ : std::make_unique<Record>().release();  // never freed
    const bool is_new = unused_ == nullptr;
    if (!is_new) unused_ = record->next_unused;
    record->path = path;
    record->size = bytes.size();
    record->begin = bytes.data();
    if (!is_new) return record;
    record->next = newest_.load();
    newest_ = record;
    return record;
  }

  static void remove(Record* record) {
    const std::lock_guard lock(mutex_);
    record->begin = nullptr;
    record->next_unused = std::exchange(unused_, record);
  }

 private:
  static void install();
  static void on_bus_error(int signal, siginfo_t* info, void* context);

  static inline std::mutex mutex_;
  static inline std::atomic<Record*> newest_{nullptr};
  static inline Record* unused_ = nullptr;
};

void WatchedBytes::Registry::install() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) != nullptr) seconds_east = local.tm_gmtoff;
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &former_action);
}

void WatchedBytes::Registry::on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  for (const auto* r = newest_.load(); info->si_code == BUS_ADRERR && r != nullptr; r = r->next) {
    const auto* const begin = r->begin.load();
    const auto pages = (r->size.load() + page_bytes - 1) / page_bytes;
    if (begin != nullptr && !std::less<>()(at, begin) && std::less<>()(at, begin + pages * page_bytes))
      end_process(r->path, r->size.load());
  }
  // Not a watched map: restores the former action. The faulting instruction then runs again and meets it; a signal
  // that kill() sent has to be raised again.
  ::sigaction(signal, &former_action, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

WatchedBytes::WatchedBytes(std::span<const std::byte> bytes, const std::string& path)
    : record_(Registry::add(bytes, path)) {}

WatchedBytes::~WatchedBytes() {
  if (record_ != nullptr) Registry::remove(record_);
}

WatchedBytes::WatchedBytes(WatchedBytes&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}

WatchedBytes& WatchedBytes::operator=(WatchedBytes&& other) noexcept {
  WatchedBytes old(std::move(*this));
  record_ = std::exchange(other.record_, nullptr);
  return *this;
}

void set_speaker(const std::string& speaker, std::atomic<bool>* has_spoken) {
  const auto count = std::min(speaker.size(), speaker_name.size() - 1);
  std::memcpy(speaker_name.data(), speaker.data(), count);
  speaker_name[count] = '\0';
  job_has_spoken = has_spoken;
}

}  // namespace tessera::base
