// The settings of one run as a tree of plain values, read from JSON files and the command line.
//
// Names and meanings are VeOmni's where it has the setting. The table in fields.h describes each setting; members are
// in its order. A default-constructed tree holds the defaults.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::config {

enum class BalanceLoss { pooled, per_layer, sequence };
enum class DataFormat { automatic, text, jsonl, megatron };
enum class OnBadLine { stop, skip };
enum class Documents { joined, separate };
enum class Precision { automatic, float32, bfloat16, float64 };
enum class OnNonfinite { stop, skip };
enum class RecomputeScope { full, experts };
enum class OptimizerType { adamw, sgd };
enum class DecayStyle { constant, linear, cosine, wsd };
enum class FsdpMode { fsdp2, zero3, zero2, zero1, ddp };
enum class Backend { automatic, mpi, nccl };
enum class DeviceType { automatic, cpu, cuda };
enum class LogLevel { debug, info, warning, error };
enum class OnlyHalf { none, compute, communication };

constexpr std::int64_t automatic = -1;  // the word auto, for an integer that the program may choose

struct ModelSettings {
  std::string config_path;  // HuggingFace config.json or its folder; empty: model_path
  std::string model_path;   // HuggingFace checkpoint to start from; empty: initial values from train.seed
  double router_z_loss_coef = 0;
  BalanceLoss balance_loss = BalanceLoss::pooled;
  // Overrides of keys of config.json: key -> JSON text of the value (`model.<key>`, `model.model_config.<key>`).
  std::map<std::string, std::string> overrides;
};

struct DataSettings {
  std::vector<std::string> train_path;  // files, folders, globs
  std::vector<std::string> eval_path;
  DataFormat format = DataFormat::automatic;
  std::string text_keys = "text";
  OnBadLine on_bad_line = OnBadLine::stop;  // for JSONL
  std::int64_t max_seq_len = 2048;          // tokens of a window
  Documents documents = Documents::joined;
};

struct GradientCheckpointingSettings {
  bool enable = false;
  RecomputeScope scope = RecomputeScope::full;
};

struct OptimizerSettings {
  OptimizerType type = OptimizerType::adamw;
  double lr = 5e-5;
  double lr_min = 1e-7;
  double lr_start = 0;
  double lr_warmup_ratio = 0;
  DecayStyle lr_decay_style = DecayStyle::constant;
  double lr_decay_ratio = 1;
  std::vector<double> betas{0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  std::vector<std::string> no_decay_params;  // patterns beside norms and biases
  double max_grad_norm = 1;                  // 0: no clipping
  double norm_type = 2;                      // p, or infinity
};

struct FsdpSettings {
  FsdpMode fsdp_mode = FsdpMode::fsdp2;
  bool reshard_after_forward = true;
  bool forward_prefetch = true;
  std::int64_t prefetch_depth = automatic;
  bool offload = false;
};

struct AcceleratorSettings {
  std::int64_t dp_replicate_size = -1;
  std::int64_t dp_shard_size = -1;
  std::int64_t tp_size = 1;
  std::int64_t pp_size = 1;
  std::int64_t ulysses_size = 1;
  std::int64_t cp_size = 1;
  std::vector<std::int64_t> extra_parallel_sizes;
  std::vector<std::string> extra_parallel_names;
  std::vector<bool> extra_parallel_placement_innermost;
  std::string parallel_plan;  // file; empty: the built-in plan of the model
  FsdpSettings fsdp_config;
  bool overlap_exchange = false;
  Backend backend = Backend::automatic;
  DeviceType device = DeviceType::automatic;
  double timeout_s = 600;
  std::int64_t world_size = 0;  // dry run only; 0: the ranks that were started
};

struct CheckpointSettings {
  std::string output_dir = "output";
  std::int64_t save_steps = 0;
  std::int64_t save_epochs = 0;
  bool save_last = true;
  bool save_async = false;
  std::int64_t keep_last = 0;
  std::int64_t keep_every = 0;
  std::string load_path;
  bool own_first = false;  // load_path counts only while output_dir has no checkpoint
  bool allow_changes = false;
  bool save_hf_weights = false;
};

struct LogSettings {
  LogLevel level = LogLevel::info;
  std::int64_t every = 1;
  std::string trace;
};

struct DebugSettings {
  std::int64_t check_replicas = 0;
  bool poison_freed = false;
  OnlyHalf only = OnlyHalf::none;
};

struct TrainSettings {
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;  // 0: micro_batch_size x data ranks
  std::int64_t max_steps = 0;          // 0: no limit
  std::int64_t num_train_epochs = 1;
  std::int64_t eval_steps = 0;
  std::uint64_t seed = 42;
  std::int64_t threads = 0;  // 0: from the environment, or cores / ranks
  Precision precision = Precision::automatic;
  bool enable_full_determinism = false;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  std::int64_t max_consecutive_skips = 10;  // 0: no limit
  GradientCheckpointingSettings gradient_checkpointing;
  std::int64_t moe_load_balance_monitor_interval = 10;
  OptimizerSettings optimizer;
  AcceleratorSettings accelerator;
  CheckpointSettings checkpoint;
  LogSettings log;
  DebugSettings debug;
};

struct Settings {
  ModelSettings model;
  DataSettings data;
  TrainSettings train;
};

}  // namespace tessera::config
