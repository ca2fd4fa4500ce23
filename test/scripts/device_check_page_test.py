#!/usr/bin/env python3
"""If this failed, the page of a device check would hide a step that failed, or show a figure that its JSON does not have."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/device_check"))
import machine  # noqa: E402
import page     # noqa: E402


def step(name, status="passed", reason="", **results):
    return {"name": name, "what": f"does {name}", "limit_s": 20, "status": status, "seconds": 1.25, "reason": reason,
            "results": results}


def report(*steps):
    return {"format": 1, "date": "2026-01-02T03:04:05+00:00", "commit": "0123abc", "command": "scripts/device_check.sh",
            "rehearsal": False, "budget_s": 450, "seconds": 99.0, "passed": all(s["status"] == "passed" for s in steps),
            "steps": list(steps)}


MACHINE = step("machine", gpu="NVIDIA H200", driver="580.1", driver_cuda="13.0", compute_capability="9.0",
               memory_bytes=140 * 2**30, torch="2.11.0+cu130", torch_cuda="13.0", peak_tflops=989.4, power_limit_w="700",
               max_sm_mhz="1980", processor="A | B", cores=16, kernel="6.1", libc="glibc 2.39")
SHAPE = {"hidden_size": 2048, "num_experts": 128, "moe_intermediate_size": 768, "num_experts_per_tok": 8,
         "num_attention_heads": 32, "head_dim": 128, "num_key_value_heads": 4, "vocab_size": 151936}
STACK = {"layers": 10, "shape": SHAPE, "parameters": 7e9, "active_parameters": 1.2e9, "tokens_a_step": 16384, "sequence": 4096,
         "steps": 12, "step_s": 0.25, "step_s_least": 0.24, "step_s_most": 0.26, "tokens_per_s": 65536, "first_loss": 12.3,
         "expected_first_loss": 12.34, "last_loss": 11.0, "expert_load_max_over_mean": 1.5, "peak_tflops": 989.4,
         "products_flop_per_token": 6e9, "products_tflops": 393.2, "products_mfu": 0.3974, "products_of_square": 0.5,
         "six_n_flop_per_token": 7e9, "six_n_tflops": 458.8, "six_n_mfu": 0.4637, "six_n_of_square": None,
         "refused": [{"layers": 12, "reason": "out of memory\nmore"}], "end_page": ["all 12 steps are done"]}
SECONDS = {"forward": 1e-3, "to_rows": 2e-3, "to_weights": 4e-3}
GROUPED = {"groups": 128, "rows": 1000, "inner": 1000, "outer": 1000, "path": "grouped_mm", "dense_s": SECONDS,
           "cases": [{"name": "uniform", "ours_s": {**SECONDS, "forward": 2e-3}}]}
TORCH = {"dense_s": SECONDS, "square": 8192, "square_tflops": 780.0, "cases": [{"name": "uniform", "torch_s": SECONDS}]}


class PageTest(unittest.TestCase):
    def lines_with(self, text, words):
        found = [line for line in text.splitlines() if words in line]
        self.assertTrue(found, f"'{words}' is not in:\n{text}")
        return found

    def test_a_whole_report_has_all_parts_and_names_the_device(self):
        losses = {"losses": [5.5, 4.25], "tokens_per_s": 1234.4}
        text = page.make_page(report(
            MACHINE, step("gpu_tests", tests=[{"program": "test_gpu_kernels", "state": "passed", "seconds": 3.0}]),
            step("demo_cpu", **losses),
            step("demo_float32", **losses, largest_early=2e-7, early_bar=1e-5, largest=3e-5, bar=2e-3),
            step("grouped_ours", **GROUPED), step("grouped_torch", **TORCH), step("stack", **STACK)))
        self.assertEqual(text.splitlines()[0], "# Device check: NVIDIA H200")
        self.lines_with(text, "7 of 7 steps passed: all.")
        self.lines_with(text, "commit 0123abc")
        self.lines_with(text, r"| processor | A \| B, 16 cores |")
        self.lines_with(text, "| memory of the GPU | 140.0 GiB |")
        self.lines_with(text, "| test_gpu_kernels | passed | 3.0 |")
        self.lines_with(text, "| GPU, float32 | 1234 | 5.50000 | 4.25000 | 2.0e-07 | 1e-05 | 3.0e-05 | 0.002 |")
        self.lines_with(text, "| products, causal attention halved | 6.000 | 393.2 | 39.7% | 50.0% |")
        self.lines_with(text, "| 6N + 12 L H T, attention whole | 7.000 | 458.8 | 46.4% | - |")
        self.lines_with(text, "12 layers (out of memory).")
        # 2e9 operations in 2 ms are 1 TFLOP/s; torch and the dense product take half the time.
        self.lines_with(text, "| uniform | forward | 1 | 2 | 0.50 | 0.50 |")
        self.lines_with(text, "A square product of 8192 by torch: 780.0 TFLOP/s.")

    def test_a_failed_step_is_shown_with_its_reason_and_what_it_has(self):
        text = page.make_page(report(MACHINE, step("demo_cpu", "left out", "the budget of time was used up"),
                                     step("grouped_ours", **GROUPED), step("grouped_torch", "failed", "No module named torch")))
        self.lines_with(text, "2 of 4 steps passed; see Checks.")
        self.lines_with(text, "**grouped_torch** failed:")
        self.lines_with(text, "No module named torch")
        self.lines_with(text, "| demo_cpu | does demo_cpu | left out |")
        self.lines_with(text, "| uniform | forward | 1 | - | - | 0.50 |")
        self.assertNotIn("## The demo", text)

    def test_without_any_result_there_is_a_page_all_the_same(self):
        text = page.make_page(report(step("machine", "failed", "nvidia-smi lists no GPU")))
        self.lines_with(text, "# Device check: GPU not read")
        self.lines_with(text, "nvidia-smi lists no GPU")

    def test_a_gpu_without_a_known_peak_gets_no_mfu(self):
        unknown = {**STACK, "peak_tflops": None, "products_mfu": None, "six_n_mfu": None}
        text = page.make_page(report(MACHINE, step("stack", **unknown)))
        self.lines_with(text, "| products, causal attention halved | 6.000 | 393.2 | - | 50.0% |")
        self.lines_with(text, "no MFU is given")

    def test_a_rehearsal_says_so_in_its_first_line(self):
        text = page.make_page({**report(MACHINE), "rehearsal": True})
        self.assertEqual(text.splitlines()[0], "# Rehearsal on the CPU: no figure here is a GPU's")

    def test_peaks_go_by_the_longest_name_that_fits(self):
        self.assertEqual(machine.peak_tflops("NVIDIA H100 PCIe"), 756.5)
        self.assertEqual(machine.peak_tflops("NVIDIA H100 80GB HBM3"), 989.4)
        self.assertEqual(machine.peak_tflops("NVIDIA A100-SXM4-80GB"), 312.0)
        self.assertIsNone(machine.peak_tflops("NVIDIA GeForce RTX 5090"))


if __name__ == "__main__":
    unittest.main()
