"""Runs programs with a time limit and appends their output to one log."""
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

TAIL_LINES = 12


class StepFailed(Exception):
    """A step of the check did not succeed: the reason, for the user, and the results that the step has nevertheless."""

    def __init__(self, reason, results=None):
        super().__init__(reason)
        self.results = results or {}


@dataclasses.dataclass
class Finished:
    code: int | None  # None: it reached its time limit and was killed, with all processes that it had started
    seconds: float
    stdout: str
    stderr: str

    def tail(self):
        lines = (self.stdout + "\n" + self.stderr).splitlines()
        return "\n".join([line for line in lines if line.strip()][-TAIL_LINES:])


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(command, limit_s, log, environment=None, folder=None):
    """Runs `command` in `folder` for at most `limit_s` seconds; the code of a program that does not exist is 127."""
    command = [str(word) for word in command]
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                       env={**os.environ, **(environment or {})}, start_new_session=True)
        except OSError as error:
            return Finished(127, 0.0, "", f"{command[0]}: {error.strerror}")
        try:
            code = process.wait(timeout=max(limit_s, 0.1))
        except subprocess.TimeoutExpired:
            code = None
            end_group(process)
        except BaseException:
            end_group(process)
            raise
        finished = Finished(code, time.monotonic() - began, *(read_all(file) for file in (out, err)))
    append(log, command, finished)
    return finished


def read_all(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def append(log, command, finished):
    ended = "killed at its time limit" if finished.code is None else f"code {finished.code}"
    with pathlib.Path(log).open("a") as file:
        file.write(f"$ {' '.join(command)}\n{finished.stdout}{finished.stderr}-- {ended} after {finished.seconds:.1f} s\n\n")


def require_success(finished, what):
    if finished.code is None:
        raise StepFailed(f"{what} was ended after {finished.seconds:.0f} s, its limit; its last lines:\n{finished.tail()}")
    if finished.code != 0:
        raise StepFailed(f"{what} ended with code {finished.code}; its last lines:\n{finished.tail()}")
    return finished
