// The folders of a run's checkpoints, and which of them is the latest.
//
//   output/step_000100/      a whole checkpoint: the name appears by one rename, after every byte is on the disk
//   output/step_000150.tmp/  one that is being written, or was when its run was killed
//   output/step_000100.old/  one in whose place another is being put, where the disk cannot swap two names; if there is
//                            no step_000100 beside it, it is that checkpoint
//   output/latest            sealed JSON {"step": 100, ...}: the checkpoint that a run goes on from
//   output/.lock             held while a run writes into the folder (folder_lock.h)
// Errors are Error(bad_input), with path and reason.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

// "step_000100"; more digits where six are too few.
[[nodiscard]] std::string folder_name(std::int64_t step);
// The folder in which the checkpoint of that step is written before it gets its name.
[[nodiscard]] base::Path unfinished_folder(const base::Path& output, std::int64_t step);

struct Listing {
  std::map<std::int64_t, base::Path> whole;  // by step
  std::vector<base::Path> unfinished;        // sorted; those that were replaced too
  std::vector<base::Path> renamed;           // whole ones under names that tell no step, sorted
};
// Of a folder that is absent: nothing.
[[nodiscard]] Listing list_checkpoints(const base::Path& output);

// "step_000050, step_000100", the last five, and those under other names; "none".
[[nodiscard]] std::string describe(const Listing& listing);

// Where the checkpoint of that step is, if it is there.
[[nodiscard]] base::Path checkpoint_folder(const base::Path& output, std::int64_t step);

// The step of the checkpoint that `output`/latest names; without such a file the newest whole one; nothing if there is
// none. Error if `latest` is damaged, or names one that is not there: with those that are.
[[nodiscard]] std::optional<std::int64_t> latest_step(const base::Path& output);

// The checkpoint that a user means by `path`: the folder of a checkpoint, or an output folder's latest. Error, naming
// those that are there, if it is neither.
[[nodiscard]] base::Path find_checkpoint(const base::Path& path);

// Gives the unfinished folder of `step` its name, in place of a checkpoint of the same step, and moves `latest`. What
// is in the folder must be on the disk. If it throws, the latest checkpoint is the one that it was or the new one.
// What had the name and was no checkpoint is kept: its new name is returned.
std::optional<base::Path> commit(const base::Path& output, std::int64_t step, base::FileSystem& files);

// Which of `listing` go once `saved` is there: of those up to it all but the newest `keep_last` (0: none go) and the
// multiples of `keep_every` (0: no others stay). Later ones stay: they are of another course of the run.
[[nodiscard]] std::vector<std::int64_t> outdated(const Listing& listing, std::int64_t saved, std::int64_t keep_last,
                                                 std::int64_t keep_every);

// At no instant is half of it there under its name, nor after a power cut.
void remove_checkpoint(const base::Path& output, std::int64_t step, base::FileSystem& files);

}  // namespace tessera::checkpoint
