"""The state that the steps of scripts/device_check.sh share: paths, results of earlier steps, the time that is left."""
import dataclasses
import json
import pathlib
import shutil
import time

from commands import Finished, StepFailed, require_success, run

WARM_UP = 3  # training steps that are not timed


@dataclasses.dataclass
class Context:
    root: pathlib.Path      # folder of the tree, or of the bundle
    programs: pathlib.Path
    build: bool             # whether to build the programs first
    corpus: pathlib.Path
    python: str             # the Python whose torch is measured
    torch_dir: pathlib.Path
    environment: dict       # for Tessera's programs
    work: pathlib.Path      # folder for files that are not kept
    log: pathlib.Path
    rehearsal: bool         # runs on the CPU with tiny sizes
    results: dict = dataclasses.field(default_factory=dict)  # by the name of the step
    _end: float = 0.0

    @property
    def device(self):
        return "cpu" if self.rehearsal else "cuda"

    def start(self, limit_s):
        """Starts the time limit of the next step."""
        self._end = time.monotonic() + limit_s

    def left(self):
        return max(self._end - time.monotonic(), 0.0)

    def attempt(self, command, environment=None) -> Finished:
        return run(command, self.left(), self.log, environment, self.root)

    def attempt_ours(self, program, arguments) -> Finished:
        return self.attempt([self.programs / program, *arguments], self.environment)

    def call(self, command, what) -> Finished:
        return require_success(self.attempt(command), what)

    def call_ours(self, program, arguments) -> Finished:
        return require_success(self.attempt_ours(program, arguments), program)

    def train(self, name, settings):
        """Runs tessera-train; returns its steps, all lines of metrics.jsonl, and its output on stderr."""
        output = self.work / name
        shutil.rmtree(output, ignore_errors=True)
        finished = self.call_ours("tessera-train", [*settings, "--train.checkpoint.save_last", "false",
                                                    "--train.checkpoint.output_dir", output])
        lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        if not steps or not all(isinstance(step["ce_loss"], float) for step in steps):
            raise StepFailed("the run has steps without a finite loss, or no steps")
        return steps, lines, finished.stderr


def json_of(finished, what):
    try:
        return json.loads(finished.stdout)
    except ValueError as error:
        raise StepFailed(f"{what} printed no JSON ({error}); its last lines:\n{finished.tail()}") from None
