#include "support/cuda_double/nccl_founding.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::test::cuda_double {

namespace {

constexpr std::uint64_t id_mark = 0x7465737365726121;

struct Id {
  std::uint64_t mark, key;
  std::int32_t process;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

struct Founding {
  std::vector<Joining> joined;
  std::string wrong;
};

struct Foundings {
  std::mutex mutex;
  std::uint64_t ids = 0;
  std::map<std::uint64_t, Founding> by_key;
};
Foundings& foundings() {
  static Foundings foundings;
  return foundings;
}

std::string wrong_with(const Founding& founding, const Joining& next) {
  if (next.rank < 0 || next.rank >= next.size) return fmt::format("rank {} of {} ranks", next.rank, next.size);
  for (const auto& one : founding.joined) {
    if (one.size != next.size)
      return fmt::format("rank {} says {} ranks, rank {} says {}", one.rank, one.size, next.rank, next.size);
    if (one.rank == next.rank) return fmt::format("rank {} joins twice", one.rank);
    if (one.device == next.device)
      return fmt::format("ranks {} and {} both use GPU {}: each needs its own (cudaSetDevice)", one.rank, next.rank,
                         one.device);
  }
  return "";
}

// To all that have come: the processes by rank, or what is wrong.
void answer(const Founding& founding, std::uint64_t key) {
  Bytes body;
  append(body, founding.wrong.empty());
  for (const char c : founding.wrong) append(body, c);
  if (founding.wrong.empty())
    for (const auto& one : founding.joined) append(body, one);
  for (const auto& one : founding.joined) mail().send(one.process, {key, founder, one.rank, Channel::creation}, body);
}

}  // namespace

std::optional<Founded> read_id(const ncclUniqueId& unique_id) {
  Id id;
  std::memcpy(&id, unique_id.internal, sizeof(id));
  if (id.mark != id_mark) return std::nullopt;
  return Founded{id.key, id.process};
}

void found_communicator(const Bytes& bytes) {
  const auto joining = value_at<Joining>(bytes, 0);
  const std::lock_guard lock(foundings().mutex);
  auto& founding = foundings().by_key[joining.key];
  if (founding.wrong.empty()) {
    const bool complete =
        !founding.joined.empty() && founding.joined.size() == static_cast<std::size_t>(founding.joined.front().size);
    founding.wrong = complete ? "its unique id has already made a communicator: each needs an id of its own"
                              : wrong_with(founding, joining);
    if (complete) founding.joined.clear();
  }
  founding.joined.push_back(joining);
  if (!founding.wrong.empty()) {
    answer(founding, joining.key);
    founding.joined.clear();
  } else if (founding.joined.size() == static_cast<std::size_t>(joining.size)) {
    answer(founding, joining.key);
  }
}

}  // namespace tessera::test::cuda_double

extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id) {
  using namespace tessera::test::cuda_double;
  if (unique_id == nullptr) return ncclInvalidArgument;
  const auto process = mail().process();
  const std::lock_guard lock(foundings().mutex);
  const Id id{id_mark, (static_cast<std::uint64_t>(process + 1) << 40) + ++foundings().ids, process};
  *unique_id = {};
  std::memcpy(unique_id->internal, &id, sizeof(id));
  return ncclSuccess;
}
