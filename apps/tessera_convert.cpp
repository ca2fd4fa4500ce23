// tessera-convert: checkpoints to HuggingFace folders and back. See --help.
#include "checkpoint/convert_command.h"

int main(int argc, char** argv) { return tessera::checkpoint::run_convert_command(argc, argv); }
