// Rows of `data.*`.
#include "config/field_rows.h"

namespace tessera::config {

void add_data_fields(std::vector<Field>& table) {
  add_rows(
      table, "Data",
      {
          on_resume(OnResume::by_effect,
                    list("data.train_path", &DataSettings::train_path, Kind::paths, any_number(), {"other.txt"},
                         {"Training data: files, folders, globs. Commas separate too, but in a JSON list, and not in a "
                          "word that is a "
                          "path as it stands.",
                          "the files listed on the start page"})),
          with(list("data.eval_path", &DataSettings::eval_path, Kind::paths, any_number(), {"held_out.txt"},
                    {"Held-out data, evaluated every train.eval_steps steps and at the end.",
                     "metrics.jsonl has eval/ce_loss and eval/perplexity"}),
               {"--train.eval_steps", "2"}),
          word("data.format", &DataSettings::format, {"auto", "text", "jsonl", "megatron"}, "text",
               {"What the files are; auto goes by their names (.jsonl, .ndjson and .json are JSONL, an object a line; "
                ".bin "
                "with .idx is megatron; anything else is text) and refuses what is binary by its first bytes; text "
                "takes any file as it is.",
                "the format named on the start page"}),
          text("data.text_keys", &DataSettings::text_keys, Kind::text, "content",
               {"Key of the text in each JSONL line.", "which text is trained on; a line without the key is refused"}),
          word("data.on_bad_line", &DataSettings::on_bad_line, {"stop", "skip"}, "skip",
               {"What a faulty JSONL line does: stop the run before its first step, or be left out, with a warning "
                "that counts them and names the first of each file.",
                "exit code 2 or a run without those lines"}),
          on_resume(OnResume::alters,
                    integer("data.max_seq_len", &DataSettings::max_seq_len, count_from(1), "64",
                            {"Tokens of one sequence (window); attention's cost grows with its square.",
                             "tokens in metrics.jsonl"})),
          on_resume(OnResume::alters,
                    word("data.documents", &DataSettings::documents, {"joined", "separate"}, "separate",
                         {"What a window does at the border of two documents: one text, or neither attention nor "
                          "labels across. separate packs whole documents; one longer than a window is cut into whole "
                          "windows and a rest, which do not see each other, and loses no label.",
                          "the losses, where a window holds two documents"})),
      });
}

}  // namespace tessera::config
