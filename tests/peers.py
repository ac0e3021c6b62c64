"""Installs what the tests talk to and uv cannot: run by plain Python, after `uv sync`.

- A CPU build of torch into `.venv`, for the tests with Stable-Baselines3. Torch comes in builds of
  several gigabytes with CUDA inside, and that is what a package index gives by default on Linux.
  Only a build that says it is for CPUs is asked for here.
- Chromium, for the tests of the report, is only looked for: it is the system's to install.

What cannot be had is not downloaded, and the tests that need it are skipped.
"""

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


def chromium() -> bool:
    return bool(shutil.which("chromium") or shutil.which("google-chrome"))


PEERS = {
    "a CPU build of torch": (torch, "Stable-Baselines3"),
    "Chromium": (chromium, "the report's page"),
}


def main() -> None:
    for name, (install, tests) in PEERS.items():
        if not install():
            print(f"Without {name}: the tests with {tests} will be skipped.")


if __name__ == "__main__":
    main()
