"""Installs what the tests talk to and uv cannot: run by plain Python, after `uv sync`.

- A CPU build of torch into `.venv`, for the tests with Stable-Baselines3. Torch comes in builds of
  several gigabytes with CUDA inside, and that is what a package index gives by default on Linux.
  Only a build that says it is for CPUs is asked for here.
- Chromium, for the tests of the report: from the system's packages, where apt is at hand and this
  is run by root, as in a container. Nobody else's system is touched.

What cannot be had is not downloaded, and the tests that need it are skipped.
"""

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
    folder = "Scripts" if sys.platform == "win32" else "bin"
    python = ENVIRONMENT / folder / "python"
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
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    asking_nothing = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.Popen(["sh", "-c", command], env=asking_nothing, **quiet)


def chromium() -> bool:
    return bool(shutil.which("chromium") or shutil.which("google-chrome"))


def main() -> None:
    installing = start_installing_chromium()
    if not torch():
        print("Without a CPU build of torch: the tests with Stable-Baselines3 will be skipped.")
    if installing is not None:
        installing.wait()
    if not chromium():
        print("Without Chromium: the tests with the report's page will be skipped.")


if __name__ == "__main__":
    main()
