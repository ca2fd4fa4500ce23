// Rows of `train.checkpoint.*`, `train.log.*` and `train.debug.*`: what a run writes and checks.
#include "config/field_rows.h"

namespace tessera::config {
namespace {

const std::string checkpoints = "checkpoints";

std::vector<Field> checkpoint_rows() {
  return {
      text("train.checkpoint.output_dir", &CheckpointSettings::output_dir, Kind::path, "elsewhere",
           {"Folder of everything that a run writes.", "where metrics.jsonl and settings.resolved.json appear"}),
      not_yet(integer("train.checkpoint.save_steps", &CheckpointSettings::save_steps, between(0, 1e15), "5",
                      {"Save every N steps; 0: not by steps.", "folders step_000005, ..."}),
              checkpoints),
      not_yet(integer("train.checkpoint.save_epochs", &CheckpointSettings::save_epochs, between(0, 1e15), "1",
                      {"Save every N epochs; 0: not by epochs.", "a folder at the end of each epoch"}),
              checkpoints),
      not_yet(boolean("train.checkpoint.save_async", &CheckpointSettings::save_async,
                      {"Write while training goes on, from a copy in host memory.", "shorter step_s at a save"}),
              checkpoints),
      not_yet(integer("train.checkpoint.keep_last", &CheckpointSettings::keep_last, count_from(0), "2",
                      {"Newest checkpoints that are kept; 0: all.", "the folders that remain"}),
              checkpoints),
      not_yet(integer("train.checkpoint.keep_every", &CheckpointSettings::keep_every, between(0, 1e15), "10",
                      {"Checkpoints at multiples of N steps are kept for good; 0: none.", "the folders that remain"}),
              checkpoints),
      not_yet(optional_row("train.checkpoint.load_path", &CheckpointSettings::load_path, {.kind = Kind::path},
                           "a fresh start", "auto",
                           {"Checkpoint to resume from; auto: the latest in output_dir, or a fresh start.",
                            "the first step in metrics.jsonl"}),
              checkpoints),
      not_yet(boolean("train.checkpoint.allow_changes", &CheckpointSettings::allow_changes,
                      {"Resume although settings differ that alter the run.", "a resume that is otherwise refused"}),
              checkpoints),
      not_yet(
          boolean("train.checkpoint.save_hf_weights", &CheckpointSettings::save_hf_weights,
                  {"Write a HuggingFace folder at the end (VeOmni's default is true).", "the folder hf in output_dir"}),
          "HuggingFace checkpoints"),
  };
}

std::vector<Field> log_rows() {
  return {
      word("train.log.level", &LogSettings::level, {"debug", "info", "warning", "error"}, "warning",
           {"Least important lines that are shown; debug adds the windows of each step.", "the lines on stderr"}),
      integer("train.log.every", &LogSettings::every, between(1, 1e15), "2",
              {"A line every N steps on a terminal, every 10 N into a file or pipe; metrics.jsonl has every step.",
               "the lines on stderr"}),
      optional_row("train.log.trace", &LogSettings::trace, {.kind = Kind::path}, "no timeline", "trace.json",
                   {"File for what each rank computed and communicated, instruction by instruction (its first 100000), "
                    "for ui.perfetto.dev.",
                    "the file"}),
  };
}

std::vector<Field> debug_rows() {
  return {
      integer("train.debug.check_replicas", &DebugSettings::check_replicas, between(0, 1e15), "1",
              {"Compare the masters and moments of replicas by hash every N steps and at the end; 0: never. Reads each "
               "of them once; a difference ends the run.",
               "a line in the log"}),
      boolean("train.debug.poison_freed", &DebugSettings::poison_freed,
              {"Fill freed memory with NaN and copy every gather, so that a use after free shows; slow.",
               "memory by purpose in --dry-run"}),
      word("train.debug.only", &DebugSettings::only, {"none", "compute", "comm"}, "compute",
           {"Run computation and communication one after the other, and count the seconds of one of them alone as the "
            "step's: against these the overlapped step is measured.",
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
