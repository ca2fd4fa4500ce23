"""What the machine is, as its own tools say, and what its GPU reaches at best by its vendor."""
import os
import pathlib
import platform
import re

from commands import StepFailed

# Dense bfloat16 products (without sparsity) in TFLOP/s, from NVIDIA's data sheets. The first name that a GPU's own begins
# with counts; of others no share of a peak is given.
PEAK_TFLOPS = [
    ("NVIDIA H200", 989.4),
    ("NVIDIA GH200", 989.4),
    ("NVIDIA H100 PCIe", 756.5),
    ("NVIDIA H100 NVL", 835.5),
    ("NVIDIA H100", 989.4),
    ("NVIDIA B200", 2250.0),
    ("NVIDIA A100", 312.0),
    ("NVIDIA L40S", 362.1),
]
SMI_FIELDS = ["name", "driver_version", "memory.total", "memory.used", "compute_cap", "power.limit", "clocks.max.sm"]


def peak_tflops(name):
    return next((peak for known, peak in PEAK_TFLOPS if name.startswith(known)), None)


def torch_versions(torch_dir):
    """Returns the versions of torch and of its CUDA, read from its folder without importing it."""
    text = (pathlib.Path(torch_dir) / "version.py").read_text()
    found = {name: re.search(rf"^{name}\b.*?=\s*'([^']*)'", text, re.MULTILINE) for name in ("__version__", "cuda")}
    return {name: match.group(1) if match else None for name, match in found.items()}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def host_facts(torch_dir):
    torch = torch_versions(torch_dir)
    return {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()), "torch": torch["__version__"], "torch_cuda": torch["cuda"]}


def mebibytes(text):
    """Converts MiB to bytes; returns None if nvidia-smi does not know the number ("[N/A]")."""
    return int(float(text) * 2**20) if re.fullmatch(r"[0-9.]+", text) else None


def gpu_facts(context):
    """Returns the facts about the first GPU."""
    listed = context.call(["nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"], "nvidia-smi")
    lines = listed.stdout.strip().splitlines()
    if not lines:
        raise StepFailed("nvidia-smi lists no GPU")
    values = dict(zip(SMI_FIELDS, (cell.strip() for cell in lines[0].split(","))))
    cuda = re.search(r"CUDA Version:\s*([0-9.]+)", context.attempt(["nvidia-smi"]).stdout)
    return {"gpu": values["name"], "gpus": len(lines), "driver": values["driver_version"],
            "driver_cuda": cuda.group(1) if cuda else None, "compute_capability": values["compute_cap"],
            "memory_bytes": mebibytes(values["memory.total"]),
            "memory_used_bytes": mebibytes(values["memory.used"]) or 0,
            "power_limit_w": values["power.limit"], "max_sm_mhz": values["clocks.max.sm"],
            "peak_tflops": peak_tflops(values["name"])}
