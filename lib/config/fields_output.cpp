// Rows of `train.checkpoint.*`, `train.log.*` and `train.debug.*`.
#include "config/field_rows.h"

namespace tessera::config {
namespace {

std::vector<Field> checkpoint_rows() {
  return {
      text("train.checkpoint.output_dir", &CheckpointSettings::output_dir, Kind::path, "elsewhere",
           {"Folder for everything that a run writes.", "where metrics.jsonl and settings.resolved.json appear"}),
      integer("train.checkpoint.save_steps", &CheckpointSettings::save_steps, between(0, 1e15), "2",
              {"Save a checkpoint every N steps; 0: not by steps.", "folders step_000002, ... in output_dir"}),
      integer("train.checkpoint.save_epochs", &CheckpointSettings::save_epochs, between(0, 1e15), "1",
              {"Save a checkpoint at the end of every N-th epoch; 0: not by epochs.", "folders in output_dir"}),
      boolean("train.checkpoint.save_last", &CheckpointSettings::save_last,
              {"Save a checkpoint after the last step, and when a signal stops the run.",
               "the folder of the last step in output_dir"}),
      with(boolean("train.checkpoint.save_async", &CheckpointSettings::save_async,
                   {"Write in the background while training goes on, from a copy of masters and moments in memory; the "
                    "next save, and the run's end, wait for it.",
                    "the log has the line of a checkpoint after later steps"}),
           {"--train.checkpoint.save_steps", "1"}),
      integer("train.checkpoint.keep_last", &CheckpointSettings::keep_last, count_from(0), "1",
              {"Number of newest checkpoints to keep; older ones are removed once a newer one is whole. 0: keep all.",
               "the folders that remain"}),
      with(integer("train.checkpoint.keep_every", &CheckpointSettings::keep_every, between(0, 1e15), "2",
                   {"With keep_last: also keep the checkpoints at multiples of N steps; 0: none.",
                    "the folders that remain"}),
           {"--train.checkpoint.keep_last", "1"}),
      on_resume(OnResume::by_effect,
                optional_row("train.checkpoint.load_path", &CheckpointSettings::load_path, {.kind = Kind::path},
                             "a fresh start", "auto",
                             {"Checkpoint to resume from: its folder, or an output folder, which stands for the latest "
                              "in it; auto: the latest in output_dir, or a fresh start if there is none.",
                              "the first step in metrics.jsonl"})),
      on_resume(OnResume::by_effect,
                boolean("train.checkpoint.own_first", &CheckpointSettings::own_first,
                        {"Resume from the latest checkpoint in output_dir if there is one, otherwise from load_path: "
                         "for a job that one command starts again and again.",
                         "the step from which a second start resumes"})),
      on_resume(OnResume::by_effect,
                with(boolean("train.checkpoint.allow_changes", &CheckpointSettings::allow_changes,
                             {"Resume although settings that alter the run differ from those of the checkpoint.",
                              "a resume that is otherwise refused"}),
                     {"--train.checkpoint.load_path", "auto"})),
      boolean("train.checkpoint.save_hf_weights", &CheckpointSettings::save_hf_weights,
              {"Also write the weights as a HuggingFace folder after the last step, in the masters' number format "
               "(VeOmni's default is true).",
               "the folder hf in output_dir"}),
  };
}

std::vector<Field> log_rows() {
  return {
      word("train.log.level", &LogSettings::level, {"debug", "info", "warning", "error"}, "warning",
           {"Least important level of lines that are shown; debug adds the windows of each step.",
            "the lines on stderr"}),
      integer("train.log.every", &LogSettings::every, between(1, 1e15), "2",
              {"Write a line every N steps to a terminal, every 10 N steps to a file or pipe; metrics.jsonl has every "
               "step.",
               "the lines on stderr"}),
      optional_row("train.log.trace", &LogSettings::trace, {.kind = Kind::path}, "no timeline", "trace.json",
                   {"File for a timeline of the instructions that each rank ran (its first 100000), to be opened in "
                    "ui.perfetto.dev.",
                    "the file"}),
  };
}

std::vector<Field> debug_rows() {
  return {
      integer("train.debug.check_replicas", &DebugSettings::check_replicas, between(0, 1e15), "1",
              {"Compare the masters and moments of replicas by hash every N steps and at the end; 0: never. Each "
               "comparison reads all of them once; a difference ends the run.",
               "a line in the log"}),
      boolean("train.debug.poison_freed", &DebugSettings::poison_freed,
              {"Fill freed memory with NaN, copy every gather, and check the shape and type of every value, so that a "
               "use after "
               "free or a wrong segment shows; slow.",
               "memory by purpose in --dry-run"}),
      word("train.debug.only", &DebugSettings::only, {"none", "compute", "comm"}, "compute",
           {"Run computation and communication one after the other, and report the seconds of only one of them as the "
            "step's: a reference for the overlapped step.",
            "step_s"}),
  };
}

}  // namespace

void add_output_fields(std::vector<Field>& table) {
  add_rows(table, "Output and checkpoints", checkpoint_rows());
  add_rows(table, "Log", log_rows());
  add_rows(table, "Debugging", debug_rows());
}

}  // namespace tessera::config
