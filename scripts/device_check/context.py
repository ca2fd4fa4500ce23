"""What the steps of scripts/device_check.sh share: where everything is, what the steps before found, how long is left."""
import dataclasses
import json
import pathlib
import shutil
import time

from commands import Finished, StepFailed, require_success, run

WARM_UP = 3  # training steps that are not timed


@dataclasses.dataclass
class Context:
    root: pathlib.Path      # of the tree, or of the bundle
    programs: pathlib.Path
    build: bool             # the programs are to be built first
    corpus: pathlib.Path
    python: str             # one whose torch is measured
    torch_dir: pathlib.Path
    environment: dict       # of our programs
    work: pathlib.Path      # for files that are not kept
    log: pathlib.Path
    rehearsal: bool         # on the CPU, in small
    results: dict = dataclasses.field(default_factory=dict)  # by step, of those that gave any
    _end: float = 0.0

    @property
    def device(self):
        return "cpu" if self.rehearsal else "cuda"

    def start(self, limit_s):
        """Of the next step."""
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
        """A run of tessera-train; its steps and all lines of metrics.jsonl, and what it wrote on stderr."""
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
