"""Starts and times one training run of tessera-train or of the PyTorch peer, on one rank or several, and reads its results."""
import dataclasses
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import threading
import time

BATCH, LENGTH, SEED = 8, 512, 0
WARM_UP = 3  # steps that are not timed
FIRST_STEP = re.compile(r"\bstep\s+1/")
# The peer is fastest if freed memory stays with the process, in pages of 2 MiB. tessera-train sets the same for itself.
PEER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
    "THP_MEM_ALLOC_ENABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


@dataclasses.dataclass
class Subject:
    """The model and data of a training run, and its distribution over ranks."""
    model: pathlib.Path   # HuggingFace folder
    corpus: pathlib.Path  # .bin and .idx, without the suffix
    steps: int
    ranks: int
    ep: int
    lr: float


class Run:
    """The results of a run: steps [{loss, step_s, tokens}], seconds from the start to the end of the first step, peak bytes
    of each rank. A run of tessera-train also has loads: for each step, the slots by layer and expert.
    """

    def __init__(self, processes, log_path, read_steps, read_peaks=None):
        self.log = log_path.read_text()
        failed = next((p for p in processes if p.code != 0), None)
        if failed is not None or processes[0].first_step_s is None:
            code = "without a first step" if failed is None else f"with code {failed.code}"
            raise SystemExit(f"compare.py: {processes[0].command[0]} ended {code}; its output is in {log_path}:\n"
                             + "\n".join(self.log.splitlines()[-12:]))
        self.first_step_s = processes[0].first_step_s
        self.peaks = read_peaks() if read_peaks else [p.peak_bytes for p in processes]
        self.steps = read_steps()

    def losses(self):
        return [step["loss"] for step in self.steps]

    def step_s(self):
        timed = self.steps[WARM_UP:] or self.steps[-1:]
        return statistics.median(step["step_s"] for step in timed)

    def tokens_per_s(self):
        return BATCH * LENGTH / self.step_s()


class Process:
    """A running process. Its output goes to the log and is searched for the end of the first step."""

    def __init__(self, command, environment, log):
        self.command, self.code, self.peak_bytes, self.first_step_s = command, None, None, None
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read, args=(log,))
        self._reader.start()

    def _read(self, log):
        for line in self._process.stdout:
            if self.first_step_s is None and FIRST_STEP.search(line):
                self.first_step_s = time.monotonic() - self._began
            log.write(line)

    def has_ended(self):
        if self.code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid != 0:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.peak_bytes = usage.ru_maxrss * 1024
                self._reader.join()
        return self.code is not None

    def end(self):
        if not self.has_ended():
            self._process.kill()


def run_together(commands, environments, log_path):
    """Starts processes at the same time; if one fails, ends the others."""
    with open(log_path, "w", buffering=1) as log:
        processes = [Process(c, e, log) for c, e in zip(commands, environments, strict=True)]
        try:
            while not all([p.has_ended() for p in processes]):
                if any(p.code not in (None, 0) for p in processes):
                    for p in processes:
                        p.end()
                time.sleep(0.02)
        except BaseException:
            for p in processes:
                p.end()
            raise
    return processes


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- the two sides


def run_tessera(subject, program, folder, settings):
    """folder gets the run's files and log; settings are further arguments of tessera-train."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "model.model_path": subject.model, "data.train_path": subject.corpus.with_suffix(".idx"),
        "data.max_seq_len": LENGTH, "train.micro_batch_size": BATCH // subject.ranks, "train.global_batch_size": BATCH,
        "train.max_steps": subject.steps, "train.seed": SEED, "train.threads": 1, "train.optimizer.lr": subject.lr,
        "train.optimizer.max_grad_norm": 0, "train.moe_load_balance_monitor_interval": 1,
        "train.checkpoint.output_dir": folder, "train.checkpoint.save_last": "false",
    }
    command = [str(program)]
    for name, value in values.items():
        command += ["--" + name, str(value)]
    if subject.ep > 1:
        command += ["--train.accelerator.ep_size", str(subject.ep)]
    command += settings
    environment = {"OMP_NUM_THREADS": "1"}
    read_peaks = None
    if subject.ranks > 1:
        wrapper = pathlib.Path(__file__).parent / "rank_memory.py"
        command = ["mpirun", "-n", str(subject.ranks), "--bind-to", "none", "--oversubscribe", "python3", "-S",
                   str(wrapper), str(folder)] + command
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        read_peaks = lambda: [int((folder / str(rank)).read_text()) for rank in range(subject.ranks)]  # noqa: E731
    processes = run_together([command], [environment], folder / "log")
    run = Run(processes, folder / "log", lambda: read_jsonl(folder / "metrics.jsonl"), read_peaks)
    run.loads = [line["expert_load"] for line in run.steps if line["kind"] == "load"]
    run.steps = [line for line in run.steps if line["kind"] == "step"]
    return run


def run_peer(subject, python, folder):
    folder.mkdir(parents=True, exist_ok=True)
    steps = folder / "steps.jsonl"
    command = [python, str(pathlib.Path(__file__).parent / "pytorch_peer.py"), str(subject.model), str(subject.corpus),
               "--steps", str(subject.steps), "--json", str(steps), "--ep", str(subject.ep), "--batch", str(BATCH),
               "--length", str(LENGTH), "--lr", str(subject.lr), "--seed", str(SEED)]
    environments = [PEER_ENVIRONMENT]
    if subject.ranks > 1:
        # Each rank's process directly: torchrun would import PyTorch once more before it starts them.
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(subject.ranks)}
        environments = [{**PEER_ENVIRONMENT, **address, "RANK": str(rank)} for rank in range(subject.ranks)]
    processes = run_together([command] * subject.ranks, environments, folder / "log")
    return Run(processes, folder / "log", lambda: read_jsonl(steps))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
