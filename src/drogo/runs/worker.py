"""A worker process: jobs come in as lines of JSON, events go out as lines of JSON.

The worker itself puts finished runs into the store, so that what is done stays done if the process
that asked for it is killed. It ends when its input does, or when its parent is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

SECONDS_BETWEEN_REPORTS = 0.5


def main() -> None:
    # Events have the real output to themselves; whatever a run prints goes to stderr.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def tell(**event: Any) -> None:
        print(json.dumps(event), file=events, flush=True)

    from drogo.runs.job import Job, check_id
    from drogo.runs.store import Store

    tell(event="ready")
    for line in sys.stdin:
        asked = json.loads(line)
        job = Job(**asked["job"])
        try:
            check_id(job, asked["id"])
            _do(job, Store(asked["store"]), tell)
        except BaseException as error:
            tell(event="failed", id=job.id, error=f"{type(error).__name__}: {error}",
                 trace=traceback.format_exc())  # fmt: skip
            if not isinstance(error, Exception):
                raise


def _do(job: Any, store: Any, tell: Any) -> None:
    from drogo.runs.job import perform

    last = 0.0

    def report(share: float) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            tell(event="progress", id=job.id, share=float(share))

    if store.has(job):
        tell(event="done", id=job.id, duration=0.0)
        return
    with store.claim(job) as ours:
        if ours:
            how = {"duration": 0.0}
            if not store.has(job):  # it may have come in between
                scratch = store.scratch(job)
                scratch.mkdir(parents=True, exist_ok=True)
                outcome, how = perform(job, scratch, report)
                store.put(job, outcome, how)
            tell(event="done", id=job.id, duration=how["duration"])
            return
    time.sleep(0.5)  # another process is at it: something else meanwhile
    tell(event="busy", id=job.id)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
