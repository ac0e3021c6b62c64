"""Installs what the tests talk to and uv cannot: run by plain Python, after `uv sync`.

A CPU build of torch goes into `.venv` (the default one on Linux has gigabytes of CUDA), and Chromium
comes from apt where this is run by root. The tests of what cannot be had are skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
ENVIRONMENT = Path(__file__).resolve().parents[1] / ".venv"


def succeeds(*command: object) -> bool:
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False)
    return done.returncode == 0


def torch() -> bool:
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if succeeds(python, "-c", "import torch"):
        return True
    # Elsewhere the default build is for CPUs; on Linux its version says so.
    wanted = f"{TORCH}+cpu" if sys.platform == "linux" else TORCH
    return succeeds(sys.executable, "-m", "pip", "--python", python, "install", wanted)


def start_installing_chromium() -> subprocess.Popen | None:
    """In the background: it takes a minute, and so does torch."""
    if chromium() or not shutil.which("apt-get") or os.geteuid() != 0:
        return None
    command = "apt-get update && apt-get install -y --no-install-recommends chromium"
    environment, quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, subprocess.DEVNULL
    return subprocess.Popen(["sh", "-c", command], env=environment, stdout=quiet, stderr=quiet)


def chromium() -> bool:
    return bool(shutil.which("chromium") or shutil.which("google-chrome"))


if __name__ == "__main__":
    installing = start_installing_chromium()
    if not torch():
        print("Without a CPU build of torch: the tests with Stable-Baselines3 will be skipped.")
    if installing is not None:
        installing.wait()
    if not chromium():
        print("Without Chromium: the tests with the report's page will be skipped.")
