// The folders of a run's checkpoints, and the one that is the latest.
//
//   output/step_000100/      a whole checkpoint: the name appears by one rename, after every byte is on the disk
//   output/step_000150.tmp/  an unfinished one: a run is writing it, or was killed while it did
//   output/step_000100.old/  one that another is just replacing, on a disk that cannot swap two names; if there is no
//                            step_000100 beside it, it is that checkpoint
//   output/latest            sealed JSON {"step": 100, ...}: the checkpoint from which a run resumes
//   output/.lock             held while a run writes into the folder (folder_lock.h)
//
// All errors are Error(bad_input), with path and reason.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

// "step_000100"; more digits if six are too few.
[[nodiscard]] std::string folder_name(std::int64_t step);
// The folder in which the checkpoint of that step is written before it gets its name.
[[nodiscard]] base::Path unfinished_folder(const base::Path& output, std::int64_t step);

struct Listing {
  std::map<std::int64_t, base::Path> whole;  // by step
  std::vector<base::Path> unfinished;        // sorted; includes .old folders that were replaced
  std::vector<base::Path> renamed;           // whole ones under other names than step_N, sorted
};
// Lists the checkpoints of an output folder; none if the folder is absent.
[[nodiscard]] Listing list_checkpoints(const base::Path& output);

// Names the last five whole checkpoints, those under other names included: "step_000050, step_000100"; "none" if there
// are none.
[[nodiscard]] std::string describe(const Listing& listing);

// Returns the folder of the checkpoint of that step, which may be its .old folder. Does not check that it exists.
[[nodiscard]] base::Path checkpoint_folder(const base::Path& output, std::int64_t step);

// Returns the step that `output`/latest names, or that of the newest whole checkpoint if there is no such file; nothing
// if there is no checkpoint. Error, listing the whole checkpoints, if `latest` is damaged or names an absent one.
[[nodiscard]] std::optional<std::int64_t> latest_step(const base::Path& output);

// Returns the checkpoint that a user means by `path`: the folder of a checkpoint, or the latest in an output folder.
// Error, listing the checkpoints in or beside it, if it is neither.
[[nodiscard]] base::Path find_checkpoint(const base::Path& path);

// Gives the unfinished folder of `step` its name, in place of a checkpoint of the same step, and moves `latest`.
// Precondition: the content of the folder is on the disk. If it throws, the latest checkpoint is the former one or the
// new one. If something that is no checkpoint had the name, moves it aside and returns its new name.
std::optional<base::Path> commit(const base::Path& output, std::int64_t step, base::FileSystem& files);

// Returns the steps of checkpoints to remove once `saved` is whole. Of the checkpoints up to that step, keeps the
// newest `keep_last` (0: all) and the multiples of `keep_every` (0: no others). Keeps all later ones: they are of
// another course of the run.
[[nodiscard]] std::vector<std::int64_t> outdated(const Listing& listing, std::int64_t saved, std::int64_t keep_last,
                                                 std::int64_t keep_every);

// Removes a checkpoint, renaming it first, so that half of it never has its name, not even after a power cut.
void remove_checkpoint(const base::Path& output, std::int64_t step, base::FileSystem& files);

}  // namespace tessera::checkpoint
