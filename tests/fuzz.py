"""Hostile bytes, fields and arguments: each is a clear error or a right answer.

    python tests/fuzz.py --seconds 120 --seed 1

Prints, for each kind, how many were tried, how many were clear errors (a `DrogoError`), how many
gave the right answer, and the others, which are mistakes of the library and are listed. It runs
without the type checks of the tests, as a user's program does.
"""

import argparse
import collections
import contextlib
import io
import json
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import (
    MDP,
    GridWorld,
    Potential,
    PotentialShaping,
    Transitions,
    collect,
    exact,
    fit,
    load,
)
from drogo.errors import DrogoError
from drogo.requests import ResultDirectory
from drogo.runs import Job, Outcome, Store

Attempt = tuple[str, Callable[[], Any], Callable[[Any], bool]]
"""What is tried, the trial, and whether its answer is right."""

MAP = "#####\n#S..#\n#.xG#\n#####\n"
HOSTILE = [
    None, True, "2", "", b"", -1, 0, 2.5, 2**40, 10**30, float("nan"), float("inf"), -float("inf"),
    1j, [], {}, (), object(), np.array([np.nan]), np.array(["a"]), np.zeros((2, 2, 2)),
    np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([None]), [[1], [1, 2]], "../x", "[red]$x$",
]  # fmt: skip


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Returns bytes with one accident: a flipped bit, a cut, a repetition, zeros, or noise."""
    changed = bytearray(content)
    at, length = int(rng.integers(len(changed))), int(rng.integers(1, 64))
    kind = rng.integers(6)
    if kind == 0:
        changed[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del changed[at:]
    elif kind == 2:
        changed[at:at] = changed[at : at + length]
    elif kind == 3:
        changed[at : at + length] = bytes(len(changed[at : at + length]))
    elif kind == 4:
        del changed[at : at + length]
    else:
        changed[at : at + length] = rng.bytes(len(changed[at : at + length]))
    return bytes(changed)


def with_field(content: bytes, rng: np.random.Generator) -> bytes:
    """Returns an `.npz` file in which a setting or a whole array is something else."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    settings = json.loads(arrays["settings"].tobytes())
    name = str(rng.choice(sorted({*settings, *arrays} - {"settings"})))
    odd = [None, -1, 2**40, "x", [], {}, 0.5, True, [None], {"a": 1}]
    if name in settings:
        settings[name] = odd[rng.integers(len(odd))]
        arrays["settings"] = np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)
    else:
        part = arrays[name]
        others = [part[:-1] if part.ndim else part[None], part.astype(np.complex64), part[None],
                  np.array(["x"]), np.zeros(0), part.astype(np.float16)]  # fmt: skip
        arrays[name] = others[rng.integers(len(others))]
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def same(a: Any, b: Any) -> bool:
    """Returns whether two results hold the same numbers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b, equal_nan=isinstance(a, np.ndarray) and a.dtype.kind == "f")


class Files:
    """One good file of every kind, and how it is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        world = GridWorld.parse(MAP)
        env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
        self.data = collect(env, 500, seed=0)
        self.data.save(directory / "data.npz")
        self.fit = fit(self.data, updates=4, width=4, depth=1, checkpoint=directory / "check.npz")
        self.fit.save(directory / "fit.npz")
        (directory / "map.txt").write_text(MAP)
        self.job = Job("run_jobs:square", {"x": 3}, "three squared")
        self.result = ResultDirectory(directory / "results", "name", {"lam": 20.0, "world": "x"})
        with self.result.begin(overwrite=False):
            self.report = self.result.finish({"files": {}, "cosine": 0.5})
        self.readers: dict[str, Callable[[Path], Any]] = {
            "data.npz": lambda path: vars(Transitions.load(path)) and self._columns(path),
            "fit.npz": lambda path: (load(path).v, load(path)(self.data.observations)),
            "check.npz": self._continued,
            "map.txt": lambda path: exact.log_column(GridWorld.load(path).mdp, lam=20.0),
        }
        self.good = {name: self.readers[name](directory / name) for name in self.readers}

    def _columns(self, path: Path) -> dict[str, np.ndarray]:
        data = Transitions.load(path)
        return {name: np.asarray(getattr(data, name)) for name in data.__dataclass_fields__}

    def _continued(self, path: Path) -> np.ndarray:
        return fit(self.data, updates=4, width=4, depth=1, checkpoint=path).v

    def attempts(self, rng: np.random.Generator) -> Iterator[Attempt]:
        while True:
            name = str(rng.choice(list(self.readers)))
            content = (self.directory / name).read_bytes()
            fields = name.endswith(".npz") and rng.random() < 0.5
            changed = with_field(content, rng) if fields else mutated(content, rng)
            path = self.directory / f"changed-{name}"
            yield (
                f"{'fields' if fields else 'bytes'} of {name}",
                lambda name=name, path=path, changed=changed: self._read(name, path, changed),
                lambda answer, name=name: name == "map.txt" or same(answer, self.good[name]),
            )

    def _read(self, name: str, path: Path, content: bytes) -> Any:
        path.write_bytes(content)
        return self.readers[name](path)


def stores(directory: Path, rng: np.random.Generator) -> Iterator[Attempt]:
    """Runs and results of requests with damaged files: found damaged, or read as they were."""
    job = Job("run_jobs:square", {"x": 3}, "three squared")
    how = {"duration": 0.1, "machine": "here", "versions": {}}
    count = 0
    while True:
        count += 1
        store = Store(directory / f"store-{count}")
        store.put(job, Outcome({"y": np.arange(3.0)}, {"note": "fine"}), how)
        path = store.place(job) / str(rng.choice(["arrays.npz", "request.json", "status.json"]))
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield (
            "bytes of a run",
            lambda store=store: store.get(job),
            lambda record: record is None or same(record.arrays["y"], np.arange(3.0)),
        )
        request = ResultDirectory(directory / f"results-{count}", "name", {"lam": 20.0})
        with request.begin(overwrite=False):
            report = request.finish({"files": {}, "cosine": 0.5})
        path = request.path / str(rng.choice(["request.json", "report.json"]))
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield (
            "bytes of a result's JSON",
            request.report,
            lambda found, report=report: (
                found is None or (isinstance(found, dict) and bool(report))
            ),
        )


def arguments(rng: np.random.Generator) -> Iterator[Attempt]:
    """Good calls of public functions in which one argument is something else."""
    world = GridWorld.parse(MAP)
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
    data = collect(env, 300, seed=0)
    mdp = world.mdp
    rows = {
        "observations": [[0.0], [1.0]], "next_observations": [[1.0], [2.0]], "reward": [-1.0, -1.0],
        "terminated": [False, True], "truncated": [False, False], "terminal_value": [0.0, 0.0],
    }  # fmt: skip
    table = {
        "observations": [[0.0], [1.0], [2.0]], "state": [0, 1], "next_state": [1, 2],
        "reward": [-1.0, -1.0], "terminated": [False, True],
    }  # fmt: skip
    states = {
        "P": [[0.5, 0.5], [0.0, 1.0]], "r": [-1.0, 0.0], "terminal": [False, True],
    }  # fmt: skip
    potential = {"observations": np.arange(3), "values": np.zeros(3)}
    small = {"updates": 2, "width": 4, "depth": 1}
    fits = {"lam": 20.0, "seeds": 1, **small, "objective": "drogo", "network": "mlp",
            "optimiser": "adam", "step_size": 1e-3, "schedule": "constant", "clip_norm": 0.5,
            "batch_size": 20, "terminal_fraction": 0.1, "cap": 2.0, "ceiling": False,
            "target_rate": 0.5, "scaled": False, "emphasis": 0.0, "tolerance": 0.1,
            "stop_early": False, "truth": None, "callbacks": (), "preset": "fast"}  # fmt: skip
    shaping = {"potential": Potential.from_states(world.observations("coordinates"), np.zeros(6)),
               "weight": 0.5, "discount": 0.9, "terminal": "zero"}  # fmt: skip
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "Transitions.from_arrays": (Transitions.from_arrays, rows),
        "Transitions.from_table": (Transitions.from_table, table),
        "MDP.from_arrays": (MDP.from_arrays, states),
        "exact.log_column": (lambda **a: exact.log_column(mdp, **a), {"lam": 20.0}),
        "exact.log_eigenvector": (
            lambda **a: exact.log_eigenvector(mdp, **a), {"lam": 20.0, "definition": "transition"},
        ),
        "exact.successor_eigenvector": (
            lambda **a: exact.successor_eigenvector(mdp, **a), {"discount": 0.9},
        ),
        "fit": (lambda **a: fit(data, **a).v, fits),
        "collect": (
            lambda **a: collect(env, **a),
            {"n": 20, "seed": 0, "start": "uniform", "reward": -1.0, "terminal_value": 0.0},
        ),
        "Potential.from_states": (Potential.from_states, potential),
        "PotentialShaping": (lambda **a: PotentialShaping(env, **a).reset(seed=0), shaping),
        "GridWorld.parse": (GridWorld.parse, {"text": MAP}),
    }  # fmt: skip
    while True:
        name = str(rng.choice(list(calls)))
        function, good = calls[name]
        argument = str(rng.choice(list(good)))
        value = HOSTILE[rng.integers(len(HOSTILE))]
        yield (
            f"arguments of {name}",
            lambda f=function, a={**good, argument: value}: f(**a),
            lambda answer: True,  # a value that is accepted is checked by the tests of its room
        )


def run(
    seconds: float, seed: int, directory: Path
) -> tuple[dict[str, collections.Counter], list[str]]:
    """Returns what came out of each kind of attempt, and the mistakes."""
    rng = np.random.default_rng(seed)
    sources = [Files(directory).attempts(rng), stores(directory, rng), arguments(rng)]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    mistakes: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind, attempt, is_right = next(sources[rng.integers(len(sources))])
        counts[kind]["tried"] += 1
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                answer = attempt()
            outcome = "right" if is_right(answer) else "other"
            text = f"{kind}: a wrong answer"
        except DrogoError:
            outcome, text = "clear error", ""
        except Exception:
            last = traceback.format_exc(limit=-1).splitlines()
            outcome, text = "other", f"{kind}: {last[-1]} {last[1].strip()}"
        counts[kind][outcome] += 1
        if outcome == "other":
            mistakes.append(text)
    return counts, mistakes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts, mistakes = run(options.seconds, options.seed, Path(directory))
    columns = ("tried", "clear error", "right", "other")
    print("| what |", " | ".join(columns), "|\n|---" + "|---" * len(columns) + "|")
    for kind in sorted(counts):
        print(f"| {kind} |", " | ".join(str(counts[kind][name]) for name in columns), "|")
    total = sum(counts.values(), collections.Counter())
    print("| all |", " | ".join(str(total[name]) for name in columns), "|")
    for mistake, often in collections.Counter(mistakes).most_common():
        print(f"\n{often} x {mistake}")
    raise SystemExit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
