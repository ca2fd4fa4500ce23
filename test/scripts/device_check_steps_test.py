#!/usr/bin/env python3
"""If this failed, a program that hangs on a GPU would take the whole check with it, or a failed step the ones after it."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/device_check"))
import check     # noqa: E402
import commands  # noqa: E402
import context   # noqa: E402
import demo      # noqa: E402
import steps     # noqa: E402

StepFailed = commands.StepFailed


def a_step(name, act, limit_s=20):
    return steps.Step(name, limit_s, f"does {name}", act)


class StepsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.context = context.Context(
            root=self.folder, programs=self.folder, build=False, corpus=self.folder, python=sys.executable,
            torch_dir=self.folder, environment={}, work=self.folder, log=self.log, rehearsal=True)
        self.context.start(20)

    def run_steps(self, *these, budget_s=100):
        report = {"date": "", "commit": "", "command": "", "rehearsal": True, "budget_s": budget_s, "seconds": 0,
                  "passed": False, "steps": []}
        with contextlib.redirect_stdout(io.StringIO()):
            check.run_steps(these, self.context, budget_s, report, self.folder)
        return json.loads((self.folder / "device_check.json").read_text())

    def test_a_program_is_killed_at_its_limit_with_all_that_it_started(self):
        began = time.monotonic()
        ended = commands.run(["sh", "-c", "echo begun; (sleep 2; echo late > late) & sleep 60"], 0.5, self.log, folder=self.folder)
        self.assertIsNone(ended.code)
        self.assertLess(time.monotonic() - began, 30)
        with self.assertRaisesRegex(StepFailed, "it was ended after .* its limit; its last lines:\nbegun"):
            commands.require_success(ended, "it")
        time.sleep(2.5)
        self.assertFalse((self.folder / "late").exists())
        self.assertIn("killed at its time limit", self.log.read_text())

    def test_a_program_that_fails_or_is_not_there_is_quoted(self):
        with self.assertRaisesRegex(StepFailed, "it ended with code 3; its last lines:\nto the point"):
            commands.require_success(commands.run(["sh", "-c", "echo to the point >&2; exit 3"], 20, self.log), "it")
        with self.assertRaisesRegex(StepFailed, "no_such_program: No such file"):
            commands.require_success(commands.run(["./no_such_program"], 20, self.log), "it")

    def test_what_fails_is_reported_and_the_next_step_begins(self):
        def fails(_):
            raise StepFailed("for a reason", {"half": 1})

        def is_faulty(_):
            return {}["nothing"]

        report = self.run_steps(a_step("first", fails), a_step("second", is_faulty), a_step("third", lambda _: {"value": 3}))
        self.assertEqual([step["status"] for step in report["steps"]], ["failed", "failed", "passed"])
        self.assertEqual(report["steps"][0]["reason"], "for a reason")
        self.assertEqual(report["steps"][0]["results"], {"half": 1})
        self.assertIn("KeyError: 'nothing'", report["steps"][1]["reason"])
        self.assertEqual(self.context.results, {"first": {"half": 1}, "third": {"value": 3}})
        self.assertFalse(report["passed"])
        self.assertIn("for a reason", (self.folder / "device_check.md").read_text())

    def test_a_step_that_comes_after_the_budget_is_left_out(self):
        report = self.run_steps(a_step("first", lambda _: {"limit": self.context.left()}), budget_s=7)
        self.assertLessEqual(report["steps"][0]["results"]["limit"], 7)
        report = self.run_steps(a_step("first", lambda _: {}), budget_s=4)
        self.assertEqual(report["steps"][0]["status"], "left out")
        self.assertFalse(report["passed"])

    def test_a_gpu_test_that_is_skipped_fails_or_is_missing_does_not_pass(self):
        with self.assertRaisesRegex(StepFailed, "names no test"):
            steps.gpu_tests(self.context)
        for name, text in (("good", "exit 0"), ("skipped", "echo no GPU; exit 77"), ("bad", "echo wrong; exit 1")):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)
        (self.folder / "gpu_tests.txt").write_text("good\n")
        self.assertEqual([test["state"] for test in steps.gpu_tests(self.context)["tests"]], ["passed"])
        (self.folder / "gpu_tests.txt").write_text("good\nskipped\nbad\nabsent\n")
        with self.assertRaisesRegex(StepFailed, "skipped skipped:\nno GPU\nbad failed:\nwrong\nabsent failed:") as caught:
            steps.gpu_tests(self.context)
        self.assertEqual([test["state"] for test in caught.exception.results["tests"]], ["passed", "skipped", "failed", "failed"])

    def test_losses_away_from_the_cpu_s_fail_with_step_and_bar(self):
        steps_of = [4.0] * 11
        cpu = types.SimpleNamespace(results={"demo_cpu": {"losses": steps_of}})
        bars = (1e-5, 1e-3)
        found = demo.against_cpu(cpu, {"losses": [*steps_of[:10], 4.003]}, bars)
        self.assertEqual(found["largest_early"], 0)
        self.assertAlmostEqual(found["largest"], 7.5e-4)
        for losses, said in (([*steps_of[:10], 4.1], "step 11 differs from the CPU's by 2.5e-02 of it; allowed are 0.001"),
                             ([4.0, 4.001, *steps_of[2:]], "step 2 differs from the CPU's by 2.5e-04 of it; allowed are 1e-05"),
                             ([4.0, 4.0, float("nan"), *steps_of[3:]], "step 3 differs from the CPU's by nan")):
            with self.assertRaisesRegex(StepFailed, said):
                demo.against_cpu(cpu, {"losses": losses}, bars)
        with self.assertRaisesRegex(StepFailed, "1 steps instead of the CPU's 11"):
            demo.against_cpu(cpu, {"losses": [4.0]}, bars)
        with self.assertRaisesRegex(StepFailed, "no losses of the CPU"):
            demo.against_cpu(types.SimpleNamespace(results={}), {"losses": [4.0]}, bars)


if __name__ == "__main__":
    unittest.main()
