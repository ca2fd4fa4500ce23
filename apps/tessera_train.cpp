// tessera-train: trains a Qwen3-MoE language model. See --help.
#include "train/command.h"

int main(int argc, char** argv) { return tessera::train::run_command(argc, argv); }
