#!/usr/bin/env python3
"""Runs a command as one rank of mpirun and writes its maximum resident size, as the kernel counts it, in bytes.

    mpirun ... rank_memory.py FOLDER COMMAND [ARGUMENT ...]     # FOLDER/RANK
"""
import os
import pathlib
import subprocess
import sys

folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
process = subprocess.Popen(command)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
(folder / os.environ["OMPI_COMM_WORLD_RANK"]).write_text(f"{usage.ru_maxrss * 1024}\n")
sys.exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)
