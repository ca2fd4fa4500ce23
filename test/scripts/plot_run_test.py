#!/usr/bin/env python3
"""If this failed, a drawing of a run would lack a step, or take an object of another kind for one."""
import json
import math
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import plot_run  # noqa: E402


def read(*lines):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "metrics.jsonl"
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return plot_run.read_run(path)


class Reading(unittest.TestCase):
    def test_every_step_is_there_whatever_other_objects_its_number_has(self):
        steps, evaluations, loads = read(
            *({"kind": "step", "step": n, "loss": float(n)} for n in range(1, 6)),
            {"kind": "load", "step": 4, "expert_load": [[1]]}, {"kind": "load", "step": 5, "expert_load": [[2]]},
            {"kind": "evaluation", "step": 5, "eval/ce_loss": 2.0}, {"kind": "traffic", "step": 5, "traffic/ep/bytes": 3})
        self.assertEqual([steps[n]["loss"] for n in range(1, 6)], [1, 2, 3, 4, 5])
        self.assertEqual(evaluations[5]["eval/ce_loss"], 2)
        self.assertEqual(loads, {5: {"kind": "load", "step": 5, "expert_load": [[2]]}})

    def test_a_step_that_comes_twice_counts_as_it_came_last(self):
        steps, _, _ = read({"kind": "step", "step": 1, "loss": 1.0}, {"kind": "step", "step": 2, "loss": 2.0},
                           {"kind": "step", "step": 1, "loss": 3.0})
        self.assertEqual([(n, value["loss"]) for n, value in steps.items()], [(1, 3), (2, 2)])

    def test_a_number_that_was_not_measured_is_a_gap_and_not_left_out(self):
        steps, values = plot_run.series({1: {"loss": 1.0}, 2: {"loss": None}, 3: {"loss": 3.0}, 4: {}}, "loss")
        self.assertEqual(steps, [1, 2, 3])
        self.assertEqual([values[0], math.isnan(values[1]), values[2]], [1, True, 3])

    def test_an_unfinished_line_is_left_out_and_what_is_no_metrics_file_is_refused(self):
        self.assertEqual(list(read({"kind": "step", "step": 1}, '{"kind": "st')[0]), [1])
        for lines in ([{"kind": "step"}], [{"step": 1}], ["[1]\n"], [], ["hello\n"]):
            with self.assertRaises(plot_run.Failure):
                read(*lines)


if __name__ == "__main__":
    unittest.main()
