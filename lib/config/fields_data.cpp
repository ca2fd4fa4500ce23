// Rows of `data.*`.
#include "config/field_rows.h"

namespace tessera::config {

void add_data_fields(std::vector<Field>& table) {
  add_rows(
      table, "Data",
      {
          on_resume(OnResume::by_effect,
                    list("data.train_path", &DataSettings::train_path, Kind::paths, any_number(), {"other.txt"},
                         {"Training data: files, folders, globs. A comma separates two paths too, except in an item of "
                          "a JSON list and in a word that is itself an existing path.",
                          "the files listed on the start page"})),
          with(list("data.eval_path", &DataSettings::eval_path, Kind::paths, any_number(), {"held_out.txt"},
                    {"Held-out data, evaluated every train.eval_steps steps and at the end.",
                     "metrics.jsonl has eval/ce_loss and eval/perplexity"}),
               {"--train.eval_steps", "2"}),
          word("data.format", &DataSettings::format, {"auto", "text", "jsonl", "megatron"}, "text",
               {"Format of the files. auto decides by their names (.jsonl, .ndjson and .json: JSONL, one object a "
                "line; .bin with .idx: megatron; any other: text) and refuses files whose first bytes are binary; text "
                "takes any file as it is.",
                "the format named on the start page"}),
          text("data.text_keys", &DataSettings::text_keys, Kind::text, "content",
               {"Key of the text in each JSONL line.", "which text is trained on; a line without the key is refused"}),
          word("data.on_bad_line", &DataSettings::on_bad_line, {"stop", "skip"}, "skip",
               {"Whether a faulty JSONL line stops the run before its first step or is left out; then a warning counts "
                "the faulty lines of each file and names the first.",
                "exit code 2 or a run without those lines"}),
          on_resume(OnResume::alters,
                    integer("data.max_seq_len", &DataSettings::max_seq_len, count_from(1), "64",
                            {"Tokens of one sequence (window); attention's cost grows with its square.",
                             "tokens in metrics.jsonl"})),
          on_resume(OnResume::alters,
                    word("data.documents", &DataSettings::documents, {"joined", "separate"}, "separate",
                         {"How documents fill windows. joined: one long text, so attention and labels cross document "
                          "borders. separate: whole documents are packed, with neither attention nor labels across "
                          "their borders; a document longer than a window is cut into whole windows and a rest, which "
                          "do not attend to each other, and loses no label.",
                          "the losses, where a window holds two documents"})),
      });
}

}  // namespace tessera::config
