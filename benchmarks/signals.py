"""Interrupts and kills the commands at random moments: how soon do they end, and is anything lost?

    uv run benchmarks/signals.py --times 20

Each command is first run undisturbed. Then it is started again and again, and gets a signal at a
random moment, as from a terminal: all of its processes get it. A start after a signal resumes what
was left; when one comes to its end before its signal, its arrays are compared with those of the
undisturbed run, and the next start begins anew. At the end, every command is let finish.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

COMMANDS = {
    "learn": ["learn", "four-rooms", "--seeds", "2", "--updates", "1000", "--transitions", "20000",
              "--set", "stop_early=false", "--out", "{}/learn"],
    "shape": ["shape", "four-rooms", "--inputs", "coordinates", "--seeds", "2", "--steps", "20000",
              "--out", "{}/shape", "--fits", "{}/learn"],
    "reproduce": ["reproduce", "ablation-tabular", "--quick", "--workers", "2",
                  "--out", "{}/reproduce"],
}  # fmt: skip
LONGEST_WAIT = 20.0
"""Seconds before a signal. A longer command advances by that much, and less, with each start."""
LONGEST_END = 1.0
"""A command that takes longer to end is listed."""
STATUS = {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}


@dataclass
class Tally:
    """What came of the signals of one kind to one command."""

    seconds: list[float] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


def arrays(directory: Path) -> dict[str, np.ndarray]:
    """Returns all arrays of all finished files. Settings hold durations, so they are left out."""
    arrays = {}
    for path in sorted(directory.rglob("*.npz")):
        if path.name != "checkpoint.npz" and not any(p.startswith(".") for p in path.parts):
            with np.load(path) as stored:
                for name in stored.files:
                    if name != "settings":
                        arrays[f"{path.relative_to(directory)}/{name}"] = stored[name]
    return arrays


def agree(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Returns whether all arrays are the same, bit for bit."""
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


def start(command: list[str], directory: Path) -> subprocess.Popen[str]:
    arguments = [part.format(directory) for part in command]
    return subprocess.Popen(
        [sys.executable, "-m", "drogo", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def send(
    process: subprocess.Popen[str], number: signal.Signals, tally: Tally, moment: float
) -> bool:
    """Sends a signal to all processes of a command, and notes how it ended.

    Returns:
        Whether it had finished all the same.
    """
    began = time.monotonic()
    os.killpg(process.pid, number)
    _, errors = process.communicate()  # until the workers, which hold the pipe, have ended too
    tally.seconds.append(time.monotonic() - began)
    tally.seen["signals"] += 1
    # Before Python has begun, the signal itself ends a process: for a shell that is the same. A
    # status of 0 means that it had just finished.
    other = process.returncode not in (STATUS[number], -number, 0)
    late = tally.seconds[-1] > LONGEST_END
    tally.seen["other status"] += other
    tally.seen["traceback"] += "Traceback" in errors
    if other or late or "Traceback" in errors:
        print(f"<!-- {number.name} after {moment:.2f} s: ended after {tally.seconds[-1]:.2f} s, "
              f"status {process.returncode}, {errors[-300:]!r} -->", flush=True)  # fmt: skip
    return process.returncode == 0


def disturb(
    command: list[str], number: signal.Signals, times: int, whole: float, truth: dict, seed: int
) -> Tally:
    """Sends a command so many signals.

    Args:
        command: The command.
        number: The signal.
        times: How often it is sent.
        whole: How many seconds the undisturbed command takes.
        truth: The arrays of the undisturbed command.
        seed: The seed of the moments.
    """
    rng, tally = np.random.default_rng(seed), Tally()
    while tally.seen["signals"] < times:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            directory, finished = Path(place), False
            while not finished:
                before = arrays(directory)
                process, moment = (
                    start(command, directory),
                    rng.uniform(0.0, min(whole, LONGEST_WAIT)),
                )
                try:
                    last = tally.seen["signals"] >= times
                    process.wait(None if last else moment)
                    finished = True
                    tally.seen["failed"] += process.returncode != 0
                except subprocess.TimeoutExpired:
                    finished = send(process, number, tally, moment)
                after = arrays(directory)
                tally.seen["lost"] += not before.keys() <= after.keys()
            tally.seen["finished"] += 1
            tally.seen["other bits"] += not agree(arrays(directory), truth)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background a shell lets it be ignored
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    columns = ("finished", "other bits", "failed", "lost", "other status", "traceback")
    print("| command | alone (s) | signal | signals | median (s) | longest (s) |",
          " | ".join(columns), "|\n" + "|---" * (6 + len(columns)) + "|", flush=True)  # fmt: skip
    for name in options.only:
        with tempfile.TemporaryDirectory() as place:
            began = time.monotonic()
            process = start(COMMANDS[name], Path(place))
            _, errors = process.communicate()
            if process.returncode:
                raise SystemExit(f"{name} failed: {errors}")
            whole, truth = time.monotonic() - began, arrays(Path(place))
        for number in STATUS:
            tally = disturb(COMMANDS[name], number, options.times, whole, truth, options.seed)
            cells = [name, f"{whole:.1f}", number.name, tally.seen["signals"]]
            cells += [f"{np.median(tally.seconds):.2f}", f"{max(tally.seconds):.2f}"]
            cells += [tally.seen[column] for column in columns]
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
