#include "config/foreign_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/fields.h"

namespace tessera::config {
namespace {

const std::vector<std::string> any_value{"*"};
const std::vector<std::string> off{"false"};
const std::vector<std::string> on{"true"};
const std::vector<std::string> none_given{};

bool matches(const ForeignName& name, std::string_view path) {
  const std::string& pattern = name.pattern;
  if (!pattern.ends_with(".*")) return path == pattern;
  return path.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

}  // namespace

// Checked against VeOmni 0.1.12, veomni/arguments/arguments_types.py.
const std::vector<ForeignName>& foreign_names() {
  static const std::vector<ForeignName> names{
      {"model.tokenizer_path", none_given,
       "training reads bytes or token ids; make .bin and .idx files with scripts/tokenize.py and name them in "
       "data.train_path"},
      {"model.safetensor_idx_path", none_given, "the index is looked for in the folder model.model_path"},
      {"model.basic_modules", {"[]", "null"}, "units follow from the model, one per layer and part"},
      {"model.lora_config", {"{}", "null"}, "adapters are not supported; every parameter is trained"},
      {"model.lora_config.*", none_given, "adapters are not supported; every parameter is trained"},
      {"model.processor_config.*", none_given, "only text is trained on"},
      {"model.chat_template", none_given, "conversations are laid out when they are tokenized"},
      {"model.ops_implementation.qat_implementation", {"\"none\""}, "quantization-aware training is not supported"},
      {"model.ops_implementation.*", any_value,
       "Tessera has one implementation of each operation, whose numbers are tested"},
      {"model.broadcast_model_weights_from_rank0", any_value, "each rank reads only its part of a checkpoint"},
      {"model.ep_sharded_stream_load", any_value, "each rank reads only its part of a checkpoint"},
      {"data.train_size", any_value,
       "the length of the data is known; train.max_steps and train.num_train_epochs end a run"},
      {"data.train_sample", any_value,
       "the length of the data is known; train.max_steps and train.num_train_epochs end a run"},
      {"data.data_type", {"\"plaintext\""}, "plain text or token ids only; see data.format"},
      {"data.datasets_type", any_value, "files are mapped into memory and read in an order that the seed fixes"},
      {"data.dataset_repeat", any_value, "data are repeated for train.num_train_epochs"},
      {"data.multisource_datasets_type", none_given,
       "data of several sources are joined; name them in data.train_path"},
      {"data.source_name", none_given, "data of several sources are joined; name them in data.train_path"},
      {"data.chat_template", {"\"default\""}, "conversations are laid out when they are tokenized"},
      {"data.dyn_bsz_buffer_size", any_value,
       "windows hold at most data.max_seq_len tokens and no padding; see data.documents"},
      {"data.silent_exception", off, "bad data is an error; data.on_bad_line = skip leaves faulty JSONL lines out"},
      {"data.dataloader.drop_last", none_given, "the last, shorter global batch is trained on"},
      {"data.dataloader.*", any_value, "one thread prefetches batches"},
      {"train.dyn_bsz", none_given,
       "sequences are windows of at most data.max_seq_len tokens without padding; see data.documents"},
      {"train.dyn_bsz_runtime", any_value,
       "windows hold at most data.max_seq_len tokens and no padding; see data.documents"},
      {"train.dyn_bsz_count_mode", none_given,
       "sequences are windows of at most data.max_seq_len tokens without padding"},
      {"train.dyn_bsz_physical_overflow_ratio", none_given,
       "sequences are windows of at most data.max_seq_len tokens without padding"},
      {"train.pad_to_length", any_value, "windows are laid end to end, there is no padding"},
      {"train.bsz_warmup_ratio", {"0", "0.0"}, "the batch size is fixed; see train.global_batch_size"},
      {"train.bsz_warmup_init_mbtoken", any_value, "the batch size is fixed"},
      {"train.init_device", any_value,
       "initial values depend on seed, name and index alone, and each rank makes only its part"},
      {"train.accelerator.init_device", any_value,
       "initial values depend on seed, name and index alone, and each rank makes only its part"},
      {"train.broadcast_model_weights_from_rank0", any_value, "each rank reads only its part of a checkpoint"},
      {"train.ep_sharded_stream_load", any_value, "each rank reads only its part of a checkpoint"},
      {"train.enable_batch_invariant_mode", off, "layout invariance is a property of every run, in float64 to 1e-10"},
      {"train.sync_each_train_step", any_value, "the step's program says which instruction waits for which"},
      {"train.empty_cache_steps", any_value, "memory comes from fixed pools"},
      {"train.gc_steps", any_value, "there is no garbage collector"},
      {"train.eval_epochs", {"0"}, "evaluation runs every train.eval_steps steps and once at the end"},
      {"train.local_rank", any_value, "ranks come from mpirun or srun"},
      {"train.wandb.enable", off, "metrics go to metrics.jsonl; plot them with scripts/plot_run.py"},
      {"train.wandb.*", any_value, "metrics go to metrics.jsonl; plot them with scripts/plot_run.py"},
      {"train.profile.enable", off, "train.log.trace writes a timeline of the program's instructions"},
      {"train.profile.*", any_value, "train.log.trace writes a timeline of the program's instructions"},
      {"train.channel_loss.enable", off, "the loss is not split by source"},
      {"train.channel_loss.*", any_value, "the loss is not split by source"},
      {"train.torch_compile.enable", off, "the step is a program of Tessera's own, there is no graph to compile"},
      {"train.torch_compile.*", any_value, "the step is a program of Tessera's own, there is no graph to compile"},
      {"train.accelerator.torch_compile.enable", off,
       "the step is a program of Tessera's own, there is no graph to compile"},
      {"train.accelerator.torch_compile.*", any_value,
       "the step is a program of Tessera's own, there is no graph to compile"},
      {"train.gradient_checkpointing.debug", off,
       "--dry-run prints what is recomputed; train.debug.poison_freed checks it"},
      {"train.gradient_checkpointing.enable_reentrant", any_value, "recomputation runs segments again, without hooks"},
      {"train.gradient_checkpointing.early_stop", any_value, "recomputation runs only what backward needs"},
      {"train.optimizer.no_decay_modules",
       {"[]", "null"},
       "norms and biases have no weight decay; name further parameters in train.optimizer.no_decay_params"},
      {"train.optimizer.grad_clip_scope", any_value, "one factor clips all parameters"},
      {"train.optimizer.muon_lr", {"null"}, "Muon is not yet built; train.optimizer.type is adamw or sgd"},
      {"train.optimizer.muon_momentum", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_nesterov", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_weight_decay", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_ns_steps", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_ns_coefficients", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_eps", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_adjust_lr_fn", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_head_group_size", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_head_split_modules", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_expert_zero_comm", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_ns_implementation", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.muon_gram_ns_reset_iterations", any_value, "Muon is not yet built, and only it reads this"},
      {"train.optimizer.swap_mem_fraction_static", any_value, "only VeOmni's adamw_swap reads this"},
      {"train.optimizer.swap_pin_memory", any_value, "only VeOmni's adamw_swap reads this"},
      {"train.accelerator.enable_async", any_value, "exchanges always run asynchronously"},
      {"train.accelerator.offload_config.enable_activation", off,
       "activations are recomputed, not offloaded; see train.gradient_checkpointing.enable"},
      {"train.accelerator.offload_config.enable_async_activation", off,
       "activations are recomputed, not offloaded; see train.gradient_checkpointing.enable"},
      {"train.accelerator.offload_config.*", any_value, "activations are recomputed, not offloaded"},
      {"train.accelerator.fsdp_config.reshard_after_backward", any_value,
       "fsdp_mode says how long gathered parameters stay: zero1 and zero2 keep them over the step"},
      {"train.accelerator.fsdp_config.offload_pin_memory", any_value, "only offload reads this"},
      {"train.accelerator.fsdp_config.max_load_broadcast_size", any_value,
       "each rank reads only its part of a checkpoint"},
      {"train.accelerator.fsdp_config.mixed_precision.output_dtype",
       {"null"},
       "segments pass values on in the compute format; the loss is float32"},
      {"train.accelerator.fsdp_config.mixed_precision.cast_forward_inputs", on, "segments compute in one format"},
      {"train.checkpoint.manager", none_given,
       "checkpoints have one format (safetensors with a manifest), which any layout can load"},
      {"train.checkpoint.stage_dir", {"null"}, "checkpoints are written in place under a temporary name, then renamed"},
      {"train.checkpoint.save_timeout_seconds", any_value, "a save that fails is reported, and training goes on"},
      {"train.checkpoint.dcp_save_to_lowest_rank", any_value, "each part is written by its primary holder"},
      {"train.checkpoint.hf_save_steps",
       {"0", "null"},
       "a HuggingFace folder is written at the end; see train.checkpoint.save_hf_weights"},
      {"train.checkpoint.hf_save_epochs",
       {"0", "null"},
       "a HuggingFace folder is written at the end; see train.checkpoint.save_hf_weights"},
  };
  return names;
}

const ForeignName* find_foreign(std::string_view path) {
  const std::string canonical = canonical_path(path);
  for (const ForeignName& name : foreign_names())
    if (matches(name, path) || matches(name, canonical)) return &name;
  return nullptr;
}

bool is_foreign_section(std::string_view path) {
  const std::string below = std::string(path) + ".";
  const std::string canonical_below = canonical_path(below);
  return std::any_of(foreign_names().begin(), foreign_names().end(), [&](const ForeignName& name) {
    return name.pattern.starts_with(below) || name.pattern.starts_with(canonical_below);
  });
}

bool is_harmless(const ForeignName& name, std::string_view value) {
  if (name.harmless == any_value) return true;
  const auto says = [&](std::string_view text) { return text == value || text == "\"" + std::string(value) + "\""; };
  return std::any_of(name.harmless.begin(), name.harmless.end(), says);
}

}  // namespace tessera::config
