"""A worker process, which reads jobs as lines of JSON and writes events as lines of JSON.

The worker itself puts finished runs into the store, so that they are kept even if the process that
asked for them is killed. It ends when its input ends or its parent is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drogo.runs.job import Job
    from drogo.runs.store import Store

SECONDS_BETWEEN_REPORTS = 0.5


def main() -> None:
    """Runs jobs until there is no more input."""
    # Events have the real output to themselves; whatever a job prints goes to stderr.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent reacts to Ctrl-C
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def emit(**event: Any) -> None:
        print(json.dumps(event), file=events, flush=True)

    from drogo.runs.job import Job, check_id
    from drogo.runs.store import Store

    emit(event="ready")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            job = Job(**request["job"])
            check_id(job, request["id"])
            _run(job, Store(request["store"]), emit)
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
            emit(event="failed", error=text, trace=traceback.format_exc())
            if not isinstance(error, Exception):
                raise


def _run(job: Job, store: Store, emit: Callable[..., None]) -> None:
    from drogo.runs.job import perform

    last = 0.0

    def report(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            emit(event="progress", fraction=float(fraction))

    if store.has(job):
        emit(event="done", duration=0.0)
        return
    with store.claim(job) as is_ours:
        if is_ours:
            how = {"duration": 0.0}
            if not store.has(job):  # another process may have finished it in the meantime
                scratch = store.scratch(job)
                scratch.mkdir(parents=True, exist_ok=True)
                outcome, how = perform(job, scratch, report)
                store.put(job, outcome, how)
            emit(event="done", duration=how["duration"])
            return
    time.sleep(0.5)  # another process is running it, so this one does something else first
    emit(event="busy")


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
