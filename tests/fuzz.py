"""Hostile bytes, fields and arguments: each is a clear error or a right answer.

The tests run it for a few seconds (`test_fuzz.py`). By name it runs as long as you like, with other
random numbers for each seed:

    python tests/fuzz.py --seconds 180 --seed 1

Prints, for each kind, how many were tried, how many were clear errors (a `DrogoError`), how many
gave the right answer, and the others, which are mistakes of the library and are listed. It runs
without the type checks of the tests, as a user's program does. An argument is replaced by a value of
its own kind: a number by another number, a text by a text, an array by an array. With `--any-type`
it is replaced by anything at all, for which Python's own `TypeError` is common and is listed.
"""

import argparse
import collections
import contextlib
import io
import json
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
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
    VectorPotentialShaping,
    agents as agents_room,
    collect,
    exact,
    fit,
    load,
    sweep,
)
from drogo.engines import Job, Outcome, Store
from drogo.errors import DrogoError
from drogo.exact.definitions import successor_eigenvector
from drogo.requests import ResultDirectory

Attempt = tuple[str, Callable[[], Any], Callable[[Any], bool]]
"""What is tried (its kind, and after a bar what it is in particular), the trial, and whether its answer is right."""

MAP = "#####\n#S..#\n#.xG#\n#####\n"
NUMBERS = [True, -1, 0, 2.5, 2**40, 2**70, -(2**80), 10**400, *map(float, ("nan", "inf", "-inf"))]
TEXTS = ["", "2", "../x", "[red]$x$", "\0", "x" * 5000]
ARRAYS = [
    [], np.array([np.nan]), np.zeros((2, 2, 2)), np.zeros(0), np.array([2**40]), [[1], [1, 2]],
    np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([None]), np.array(["a"]), np.array([1j]),
    [2**70], [0.5, 10**400],
]  # fmt: skip
OTHERS = [None, b"", 1j, {}, (), object()]
LONGEST = 60
"""Seconds after which an attempt is a mistake: nothing here has much to compute."""


def hostile(good: Any, rng: np.random.Generator, *, any_type: bool) -> Any:
    """Returns a value in place of a good one: of the same kind, or of any type at all."""
    choices = ARRAYS
    if any_type:
        choices = [*NUMBERS, *TEXTS, *ARRAYS, *OTHERS]
    elif isinstance(good, str):
        choices = TEXTS
    elif isinstance(good, int | float):
        choices = NUMBERS
    return choices[rng.integers(len(choices))]


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


def with_field(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Returns an `.npz` file in which a setting or a whole array is something else, and which."""
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
    return stream.getvalue(), f"{name}: {settings.get(name, arrays.get(name))!r}"


def same(a: Any, b: Any, *, close: bool = False) -> bool:
    """Returns whether two results hold the same numbers, or those in half precision if `close`."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name], close=close) for name in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y, close=close) for x, y in zip(a, b, strict=True))
    if close and isinstance(a, np.ndarray) and a.dtype.kind == "f":
        return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-2, equal_nan=True)
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
            changed, what = with_field(content, rng) if fields else (mutated(content, rng), "")
            path = self.directory / f"changed-{name}"
            yield (
                f"{'fields' if fields else 'bytes'} of {name}|{what}"[:200],
                lambda name=name, path=path, changed=changed: self._read(name, path, changed),
                lambda answer, name=name, close=fields: (
                    name == "map.txt" or same(answer, self.good[name], close=close)
                ),
            )

    def _read(self, name: str, path: Path, content: bytes) -> Any:
        path.write_bytes(content)
        return self.readers[name](path)


def stores(directory: Path, rng: np.random.Generator) -> Iterator[Attempt]:
    """Runs and results of requests with damaged files: found damaged, or read as they were."""
    job = Job("run_jobs:square", {"x": 3}, "three squared")
    how = {"duration": 0.1, "machine": "here", "versions": {}}
    report = {"files": {}, "cosine": 0.5}
    count = 0
    while True:
        count += 1
        store = Store(directory / f"store-{count}")
        store.put(job, Outcome({"y": np.arange(3.0)}, {"note": "fine"}), how)
        path = store.place(job)
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield (
            "bytes of a run",
            lambda store=store: store.get(job),
            lambda record: record is None or (
                same(dict(record.arrays), {"y": np.arange(3.0)}) and record.facts == {"note": "fine"}
            ),
        )  # fmt: skip
        request = ResultDirectory(directory / f"results-{count}", "name", {"lam": 20.0})
        with request.begin(overwrite=False):
            request.finish(report)
        path = request.path / str(rng.choice(["request.json", "report.json"]))
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield (
            "bytes of a result's JSON",
            request.report,
            lambda found: found == report,
        )


def arguments(
    rng: np.random.Generator, *, any_type: bool, without: Collection[str]
) -> Iterator[Attempt]:
    """Good calls of public functions in which one argument is something else."""
    world = GridWorld.parse(MAP)
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
    data = collect(env, 300, seed=0)
    mdp = world.mdp
    rows = {
        "observations": [[0.0], [1.0]], "next_observations": [[1.0], [2.0]], "reward": [-1.0, -1.0],
        "terminated": [False, True], "truncated": [False, False], "terminal_reward": [0.0, 0.0],
    }  # fmt: skip
    table = {
        "observations": [[0.0], [1.0], [2.0]], "state": [0, 1], "next_state": [1, 2],
        "reward": [-1.0, -1.0], "terminated": [False, True],
    }  # fmt: skip
    episode = {
        "observations": [[0.0], [1.0], [2.0]], "actions": [0, 1], "rewards": [-1.0, -1.0],
        "behaviour": [0.5, 0.5], "terminated": [False, True], "truncated": False,
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
    zeros = np.zeros((2, mdp.n_states))
    agents = {"potential": zeros, "weight": np.zeros(2), "step_size": np.ones(2),
              "seed": np.arange(2), "step_limit": 10, "low_reward": None, "discount": 0.9,
              "epsilon": 0.1}  # fmt: skip
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    fitted = fit(data, **small)
    two = gymnasium.vector.SyncVectorEnv([lambda: env] * 2)
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "Transitions.from_arrays": (Transitions.from_arrays, rows),
        "Transitions.from_table": (Transitions.from_table, table),
        "Transitions.from_trajectories": (
            lambda **a: Transitions.from_trajectories([a]), episode,
        ),
        "MDP.from_arrays": (MDP.from_arrays, states),
        "exact.log_column": (lambda **a: exact.log_column(mdp, **a), {"lam": 20.0}),
        "exact.log_eigenvector": (
            lambda **a: exact.log_eigenvector(mdp, **a), {"lam": 20.0, "definition": "transition"},
        ),
        "exact.log_columns": (
            lambda **a: exact.log_columns(mdp, **a), {"lam": 20.0, "goals": [0, 2]},
        ),
        "exact.transfer": (
            lambda **a: exact.transfer(mdp, **a), {"lam": 20.0, "terminal_rewards": [0.0]},
        ),
        "exact.successor_eigenvector": (
            lambda **a: successor_eigenvector(mdp, **a), {"discount": 0.9},
        ),
        "fit": (lambda **a: fit(data, **a).v, fits),
        "collect": (
            lambda **a: collect(env, **a),
            {"n": 20, "seed": 0, "start": "uniform", "reward": -1.0, "terminal_reward": 0.0},
        ),
        "Potential.from_states": (Potential.from_states, potential),
        "PotentialShaping": (lambda **a: PotentialShaping(env, **a).reset(seed=0), shaping),
        "GridWorld.parse": (GridWorld.parse, {"text": MAP}),
        "GridWorld.load": (GridWorld.load, {"source": "ring"}),
        "GridWorld.observations": (world.observations, {"kind": "pixels", "tile": 1}),
        "MDP.from_gymnasium": (
            lambda **a: MDP.from_gymnasium(lake, **a), {"reward": -1.0, "max_states": 20, "seed": 0},
        ),
        "exact.solve": (
            lambda **a: exact.solve(mdp, **a),
            {"lam": 20.0, "definition": "column", "delta": 0.01, "terminal": "absorbing",
             "terminal_reward": [0.0]},
        ),
        "agents.q_learning": (
            lambda **a: agents_room.q_learning(mdp, steps=20, every=10, **a), agents,
        ),
        "agents.optimal_values": (
            lambda **a: agents_room.optimal_values(mdp, **a), {"discount": 0.9},
        ),
        "VectorPotentialShaping": (
            lambda **a: VectorPotentialShaping(two, **a).reset(seed=0), shaping,
        ),
        "a fit": (fitted, {"observations": data.observations[:2]}),
        "a fit's potential": (fitted.potential, {"seed": 0}),
        "a fit's function": (fitted.value_fn, {"seed": 0}),
        "load": (load, {"path": "nowhere.npz"}),
        "sweep": (
            lambda **a: sweep(data, **small, **a), {"grid": {"lam": [20.0, 10.0]}, "seeds": 1},
        ),
        "a job": (lambda **a: Job(**a).id, {"function": "run_jobs:square", "settings": {"x": 1},
                                            "label": "", "seconds": 1.0}),
    }  # fmt: skip
    while True:
        name = str(rng.choice([name for name in calls if name not in without]))
        function, good = calls[name]
        argument = str(rng.choice(list(good)))
        kinds = (str, int, float, list, np.ndarray)
        if not any_type and not isinstance(good[argument], kinds):
            continue  # None, a function, or an object of a class of drogo
        value = hostile(good[argument], rng, any_type=any_type)
        yield (
            f"arguments of {name}|{argument}={value!r}"[:200],
            lambda f=function, a={**good, argument: value}: f(**a),
            lambda answer: True,  # a value that is accepted is checked by the tests of its room
        )


def run(
    seconds: float,
    tries: float,
    seed: int,
    directory: Path,
    *,
    any_type: bool,
    without: Collection[str],
) -> tuple[dict[str, collections.Counter], list[str]]:
    """Returns what came out of each kind of attempt, and the mistakes."""

    def too_long(number: int, frame: Any) -> None:
        raise TimeoutError(f"more than {LONGEST} seconds")

    signal.signal(signal.SIGALRM, too_long)
    rng = np.random.default_rng(seed)
    sources = [
        Files(directory).attempts(rng),
        stores(directory, rng),
        arguments(rng, any_type=any_type, without=without),
    ]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    mistakes: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and sum(count["tried"] for count in counts.values()) < tries:
        tried, attempt, is_right = next(sources[rng.integers(len(sources))])
        kind, _, detail = tried.partition("|")
        counts[kind]["tried"] += 1
        signal.alarm(LONGEST)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                answer = attempt()
            outcome = "right" if is_right(answer) else "other"
            text = f"{kind} {detail}: a wrong answer"
        except DrogoError:
            outcome, text = "clear error", ""
        except Exception:
            last = traceback.format_exc(limit=-1).splitlines()
            outcome, text = "other", f"{kind} {detail}: {last[-1]} {last[1].strip()}"
        signal.alarm(0)
        counts[kind][outcome] += 1
        if outcome == "other":
            mistakes.append(text)
    return counts, mistakes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tries", type=float, default=np.inf, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--any-type", action="store_true", help="also arguments of other types")
    parser.add_argument("--without", nargs="*", default=(), help="functions that are left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts, mistakes = run(
            options.seconds,
            options.tries,
            options.seed,
            Path(directory),
            any_type=options.any_type,
            without=options.without,
        )
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
