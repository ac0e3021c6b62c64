"""A worker process, which receives jobs over a connection and sends back events.

It puts finished runs into the store itself, so that they are kept even if its parent is killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing.connection import Connection

from drogo.engines.job import Job, name_error, perform
from drogo.engines.store import Store


def main() -> None:
    """Runs jobs until there are no more. The argument is the file descriptor of the connection."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    connection.send(("ready", 0.0))
    while True:
        try:
            job, path = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_run(job, Store(path), connection))
        except BaseException as error:  # also SystemExit: the worker continues with the next job
            connection.send(("failed", name_error(error)))


def _run(job: Job, store: Store, connection: Connection) -> tuple[str, float]:
    """Returns "done" and the duration, or "busy" if another process is running the job."""
    with store.claim(job) as is_ours:
        if not is_ours:
            time.sleep(0.5)  # so that this process takes another job first
            return "busy", 0.0
        if store.has(job):  # another process has finished it in the meantime
            return "done", 0.0
        scratch = store.scratch(job)
        scratch.mkdir(parents=True, exist_ok=True)
        outcome, how = perform(job, scratch, lambda done: connection.send(("progress", done)))
        store.put(job, outcome, how)
        return "done", how["duration"]


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
