"""Hostile bytes, fields and arguments: each is a clear error or a right answer.

    python tests/fuzz.py --seconds 180 --seed 1

prints, for each kind, how many were tried, were clear errors (a `DrogoError`), gave the right
answer, and did neither, which is a mistake of the library. It runs without type checks, as a user's
program does. An argument is replaced by a value of its own kind.
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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import (
    ALLO,
    GDO,
    GGDO,
    MDP,
    Column,
    Continuing,
    Drogo,
    Goals,
    GoalShaping,
    GridWorld,
    LogGDO,
    MiniGridWorld,
    NaturalGDO,
    NeverEnding,
    OnlineMap,
    OnlineShaping,
    OnlineTable,
    Paper,
    Potential,
    Regression,
    Spectrum,
    Transitions,
    VectorOnlineShaping,
    VectorPotentialShaping,
    certify,
    collect,
    exact,
    fit,
    load,
    plot,
    recommend,
    solve,
)  # fmt: skip
from drogo.errors import DrogoError
from drogo.learn import CNN, MLP, Effort, Optimiser, PairMLP, Quasimetric
from drogo.requests import ResultDirectory
from drogo.use import Option, OptionWrapper, learned_option, make_option
from drogo_paper.agents import Training, q_learning
from drogo_paper.agents.learned_counts import LearnedCounts
from drogo_paper.engines import Job, Outcome, Store
from drogo_paper.reach_goals import ReachGoals
from small_data import ROOM, world_env

Attempt = tuple[str, Callable[[], Any], Callable[[Any], bool]]
"""The kind of an attempt and, after a bar, its details; the attempt; and a check of its answer."""

MAP = "#####\n#S..#\n#.xG#\n#####\n"
NUMBERS = [True, -1, 0, 2.5, 2**40, 2**70, -(2**80), 10**400, *map(float, ("nan", "inf", "-inf"))]
TEXTS = ["", "2", "../x", "[red]$x$", "\0", "x" * 5000]
ARRAYS = [
    [], np.array([np.nan]), np.zeros((2, 2, 2)), np.zeros(0), np.array([2**40]), [[1], [1, 2]],
    np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([None]), np.array(["a"]), np.array([1j]),
    [2**70], [0.5, 10**400],
]  # fmt: skip
FIELDS = [None, -1, 2**40, "x", [], {}, 0.5, True, [None], {"a": 1}]
OBJECTS = [object(), 1j, b"x", {2.5}, [object()], float("nan")]
"""Values that are right for no argument."""
LONGEST = 60
"""Seconds after which an attempt is a mistake: nothing here has much to compute."""
SMALL = {"network": MLP(width=4, depth=1), "method": Drogo(updates=4)}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Returns bytes with one accident: a flipped bit, a cut, a repetition, zeros, or noise."""
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 64))
    part, after = content[at : at + length], content[at + length :]
    flipped = bytes([part[0] ^ 1 << int(rng.integers(8))]) + part[1:]
    accidents = [flipped, b"", part + part, bytes(len(part)), rng.bytes(len(part))]
    if rng.random() < 1 / 6:
        return content[:at]
    return content[:at] + accidents[rng.integers(len(accidents))] + after


def with_field(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Returns an `.npz` file in which a setting or a whole array is something else, and which."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = dict(stored)
    settings = json.loads(arrays.pop("settings").tobytes())
    name = str(rng.choice(sorted({*settings, *arrays})))
    if name in settings:
        settings[name] = FIELDS[rng.integers(len(FIELDS))]
    else:
        part = arrays[name]
        others = [part[:-1] if part.ndim else part[None], part.astype(np.complex64), part[None],
                  np.array(["x"]), np.zeros(0), part.astype(np.float16)]  # fmt: skip
        arrays[name] = others[rng.integers(len(others))]
    stream = io.BytesIO()
    text = np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)
    np.savez_compressed(stream, settings=text, **arrays)
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


def files(directory: Path, rng: np.random.Generator) -> Iterator[Attempt]:
    """One file of every kind with an accident: found damaged, or read as it was."""
    data = collect(world_env(ROOM, "coordinates"), 500, seed=0)
    data.save(directory / "data.npz")
    fit(data, Column(), checkpoint=directory / "check.npz", **SMALL).save(directory / "fit.npz")
    (directory / "map.txt").write_text(MAP)

    def columns(path: Path) -> dict[str, np.ndarray]:
        read = Transitions.load(path)
        return {name: np.asarray(getattr(read, name)) for name in read.__dataclass_fields__}

    readers: dict[str, Callable[[Path], Any]] = {
        "data.npz": columns,
        "fit.npz": lambda path: ((read := load(path)).v, read(data.observations)),
        "check.npz": lambda path: fit(data, Column(), checkpoint=path, **SMALL).v,
        "map.txt": lambda path: exact.log_column(GridWorld.load(path).mdp, lam=20.0),
    }
    good = {name: read(directory / name) for name, read in readers.items()}

    def attempt(name: str, content: bytes) -> Any:
        path = directory / f"changed-{name}"
        path.write_bytes(content)
        return readers[name](path)

    while True:
        name = str(rng.choice(list(readers)))
        content = (directory / name).read_bytes()
        fields = name.endswith(".npz") and rng.random() < 0.5
        changed, detail = with_field(content, rng) if fields else (mutated(content, rng), "")
        is_right = partial(same, good[name], close=fields)
        yield (
            f"{'fields' if fields else 'bytes'} of {name}|{detail}"[:200],
            partial(attempt, name, changed),
            (lambda answer: True) if name == "map.txt" else is_right,
        )


def stores(directory: Path, rng: np.random.Generator) -> Iterator[Attempt]:
    """Runs and results of requests with damaged files: found damaged, or read as they were."""
    job = Job("run_jobs:square", {"x": 3}, "three squared")
    arrays, facts, report = {"y": np.arange(3.0)}, {"note": "fine"}, {"files": {}, "cosine": 0.5}
    while True:
        place = Path(tempfile.mkdtemp(dir=directory))
        store = Store(place / "store")
        store.put(job, Outcome(arrays, facts), {"duration": 0.1})
        path = store.place(job)
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield (
            "bytes of a run",
            lambda store=store: store.get(job),
            lambda run: run is None or (same(dict(run.arrays), arrays) and run.facts == facts),
        )
        result = ResultDirectory(place, "name", {"lam": 20.0})
        with result.begin(overwrite=False):
            result.finish(report)
        path = result.path / str(rng.choice(["request.json", "report.json"]))
        path.write_bytes(mutated(path.read_bytes(), rng))
        yield "bytes of a result's JSON", result.report, lambda answer: answer == report


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Returns public functions with good arguments."""
    world = GridWorld.parse(MAP)
    env, mdp = world_env(world, "coordinates"), world.mdp
    data = collect(env, 300, seed=0)
    solution = fit(data, Column(), **SMALL)
    phi, lake = solution.potential(0), gymnasium.make("FrozenLake-v1", is_slippery=False)
    steps = {"reward": [-1.0, -1.0], "terminated": [False, True]}
    short = Training(step_limit=10, steps=20, every=10)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    table, ring = OnlineTable(*spaces.values()), np.roll(np.eye(4), 1, axis=1)
    states, vector = np.zeros(mdp.n_states), exact.spectrum(mdp, 2)
    rule = {"weight": 0.5, "discount": 0.9, "terminal": "zero", "reward": -1.0, "goal_reward": 1.0}
    field = {"batch_size": 4, "updates": 3, "weigh_actions": True, "stop_early": True}
    penalised = {**field, "penalty": 1.0, "target_norm": 1.0, "delta": 0.1}
    net = {"width": 4, "depth": 1}
    effort = Effort(groups=3, rollouts=1, steps=5, rounds=1)
    goal_env = ReachGoals(world_env(world, "state"))
    vectors = gymnasium.vector.SyncVectorEnv([partial(world_env, world, "coordinates")])
    option = {"policy": lambda seen: 0, "begins": lambda seen: True, "ends": lambda seen: True}
    columns = {"observation": data.observations[:2], "next_observation": data.observations[1:3],
               "action": [0, 1], **steps}  # fmt: skip
    more = {
        "Continuing": (Continuing, {"lam": 20.0, "tolerance": 0.1, "reference": [0.0]}),
        "Goals": (Goals, {"radius": 0.5, "most_goals": 9, "near": 0.5, "reached": None}),
        "Spectrum": (Spectrum, {"vectors": 2, "matrix": "default", "discount": 0.9, "lam": 2.0}),
        **{kind.__name__: (kind, penalised) for kind in (ALLO, GDO, GGDO, LogGDO, NaturalGDO)},
        "Paper": (Paper, {"updates": 3, "cap": 2.0}), "Regression": (Regression, field),
        "CNN": (CNN, net), "PairMLP": (PairMLP, net),
        "Quasimetric": (Quasimetric, {**net, "components": 2, "length": 2}),
        "Effort": (Effort, {"groups": 3, "rollouts": 1, "candidates": 2, "steps": 5, "rounds": 1}),
        "fit of": (lambda **a: fit(**{**SMALL, **a}), {"data": data, "problem": Column(), "method":
            Drogo(updates=2), "network": MLP(4, 1), "optimiser": None, "truth": None, "callbacks":
            (), "checkpoint": None, "continue_from": None, "seeds": 1}),
        "recommend": (recommend, {"data": data, "problem": Column()}),
        "solve": (solve, {"source": mdp, "problem": Column()}),
        "certify": (certify, {"solution": solution, "env": env, "starts": 2, "seed": 0, "tolerance":
            None, "effort": effort}),
        "NeverEnding": (NeverEnding, {"env": env, "at_end": 0.0}),
        "ReachGoals": (ReachGoals, {"env": world_env(world, "state"), "failure": 0.0}),
        "MiniGridWorld": (MiniGridWorld, {"env": "MiniGrid-Empty-5x5-v0", "layout": 0, "tile": 1,
            "observation": "rgb", "actions": None, "step_limit": 9}),
        "OnlineTable": (OnlineTable, {**spaces, "problem": Column(), "optimism": 0.0, "until_found":
            True, "every": 10, "most_states": 99, **rule}),
        "OnlineMap": (OnlineMap, {**spaces, "problem": Column(), "method": Drogo(), "network":
            MLP(4, 1), "optimiser": None, "seed": 0, "capacity": 10, "sides": None, **rule}),
        "OnlineTable.observe": (OnlineTable(*spaces.values()).observe, columns),
        "OnlineShaping": (OnlineShaping, {"env": env, "online": table, "terminal_reward": None}),
        "VectorOnlineShaping": (VectorOnlineShaping, {"env": vectors, "online": table}),
        "VectorPotentialShaping": (VectorPotentialShaping, {
            "env": vectors, "potential": phi, "weight": 0.5, "view": None}),
        "GoalShaping": (GoalShaping, {"env": goal_env, "value": lambda a, b: np.zeros(len(a)),
            "weight": 0.5, "discount": 0.9, "part": "achieved_goal"}),
        "Potential": (Potential, {"function": len, "shape": (2,), "discount": 0.9, "name": "x",
            "single": None}),
        "potential.discounted": (phi.discounted, {"goal_reward": 1.0, "discount": 0.9, "goal": 0.0}),
        "Transitions.concatenate": (Transitions.concatenate, {"parts": [data, data]}),
        "data.batches": (lambda **a: list(data.batches(**a)), {"size": 100, "seed": 0}),
        "data.save": (data.save, {"path": "nowhere.npz", "overwrite": 1}),
        "exact.perron": (partial(exact.perron, MDP.from_arrays(ring, -np.ones(4))), {
            "lam": 2.0, "reference": 0}),
        "exact.spectrum": (exact.spectrum, {"mdp": mdp, "k": 2, "matrix": "default", "lam": 2.0}),
        "exact.overlap": (exact.overlap, {"vectors": vector.vectors, "truth": vector}),
        "exact.cosines": (exact.cosines, {"vectors": vector.vectors, "truth": vector}),
        "Option": (Option, {**option, "name": "x"}),
        "OptionWrapper": (OptionWrapper, {"env": env, "options": [Option(**option)], "limit": 3}),
        "make_option": (make_option, {"world": env, "potential": states, "method": "climb",
            "discount": 0.9, "name": "x"}),
        "learned_option": (learned_option, {"online": table, "name": "x", "seed": 0}),
        "LearnedCounts": (LearnedCounts, {**spaces, "seed": 0, "features": 2, "lam": 1.0, **net}),
        "plot.heatmap": (plot.heatmap, {"world": world, "values": states}),
        "plot.goal_maps": (plot.goal_maps, {"world": world, "maps": {"a": states}, "columns": 1}),
        "plot.solution": (plot.solution, {"found": solution, "title": "x"}),
        "plot.as_png": (plot.as_png, {"figure": plot.heatmap(world, states), "dpi": 10}),
    }  # fmt: skip
    return more | {
        "Transitions.from_arrays": (Transitions.from_arrays, {
            "observations": [[0.0], [1.0]], "next_observations": [[1.0], [2.0]], "truncated":
            [False, False], "terminal_reward": [0.0, 0.0], **steps}),
        "Transitions.from_table": (Transitions.from_table, {
            "observations": [[0.0], [1.0], [2.0]], "state": [0, 1], "next_state": [1, 2], **steps}),
        "Transitions.from_trajectories": (lambda **a: Transitions.from_trajectories([a]), {
            "observations": [[0.0], [1.0], [2.0]], "actions": [0, 1], "rewards": [-1.0, -1.0],
            "behaviour": [0.5, 0.5], "terminated": [False, True], "truncated": False}),
        "MDP.from_arrays": (MDP.from_arrays, {
            "P": [[0.5, 0.5], [0.0, 1.0]], "r": [-1.0, 0.0], "terminal": [False, True]}),
        "MDP.from_gymnasium": (partial(MDP.from_gymnasium, lake), {
            "reward": -1.0, "max_states": 20, "seed": 0}),
        "exact.solve": (partial(exact.solve, mdp), {
            "lam": 20.0, "definition": "column", "delta": 0.01, "terminal": "absorbing",
            "terminal_reward": [0.0]}),
        "exact.log_columns": (partial(exact.log_columns, mdp), {"lam": 20.0, "goals": [0, 2]}),
        "exact.transfer": (partial(exact.transfer, mdp), {"lam": 20.0, "terminal_rewards": [0.0]}),
        "Column": (Column, {"lam": 20.0, "tolerance": 0.1}),
        "Drogo": (Drogo, {"updates": 2, "batch_size": 20, "terminal_fraction": 0.1, "cap": 2.0,
            "target_rate": 0.5, "emphasis": 0.0}),
        "Optimiser": (Optimiser, {
            "name": "adam", "step_size": 1e-3, "schedule": "constant", "clip_norm": 0.5}),
        "MLP": (MLP, {"width": 4, "depth": 1, "frequencies": 2}),
        "fit": (lambda **a: fit(data, Column(), **SMALL, **a).v, {"seeds": 1}),
        "collect": (partial(collect, env), {
            "n": 20, "seed": 0, "start": "uniform", "reward": -1.0, "terminal_reward": 0.0}),
        "Potential.from_states": (drogo.Potential.from_states, {
            "observations": np.arange(3), "values": np.zeros(3)}),
        "PotentialShaping": (lambda **a: drogo.PotentialShaping(env, phi, **a).reset(seed=0), {
            "weight": 0.5, "discount": 0.9, "terminal": "zero"}),
        "GridWorld.parse": (GridWorld.parse, {"text": MAP}),
        "GridWorld.load": (GridWorld.load, {"source": "ring"}),
        "GridWorld.observations": (world.observations, {"kind": "pixels", "tile": 1}),
        "Training": (Training, {"step_limit": 10, "discount": 0.9, "epsilon": 0.1}),
        "q_learning": (partial(q_learning, mdp, short), {"step_size": np.ones(2), "seed":
            np.arange(2), "potential": np.zeros((2, mdp.n_states)), "weight": np.zeros(2)}),
        "a fit": (lambda **a: solution(*a.values()), {"observations": data.observations[:2]}),
        "a fit's potential": (solution.potential, {"seed": 0}),
        "load": (load, {"path": "nowhere.npz"}),
        "a job": (lambda **a: Job(**a).id, {
            "function": "run_jobs:square", "settings": {"x": 1}, "label": "", "seconds": 1.0}),
    }  # fmt: skip


def arguments(rng: np.random.Generator) -> Iterator[Attempt]:
    """Good calls of public functions in which one argument is another value of its kind."""
    functions = calls()
    while True:
        name = str(rng.choice(list(functions)))
        function, good = functions[name]
        argument = str(rng.choice(list(good)))
        kinds = {str: TEXTS, (int, float): NUMBERS, (list, np.ndarray): ARRAYS}
        same = [kinds[kind] for kind in kinds if isinstance(good[argument], kind)]
        for choices in [*same, *[OBJECTS] * (name != "a job")]:
            value = choices[rng.integers(len(choices))]
            call = partial(function, **{**good, argument: value})
            # An accepted value of the same kind is checked by the tests of its room.
            wrong = choices is OBJECTS
            text = f"{'wrong ' * wrong}arguments of {name}|{argument}={value!r}"
            yield text[:200], call, lambda answer, wrong=wrong: not wrong


def run(
    seconds: float, tries: float, seed: int, directory: Path
) -> tuple[dict[str, collections.Counter], list[str]]:
    """Returns the outcomes of each kind of attempt, and the mistakes."""

    def too_long(number: int, frame: Any) -> None:
        raise TimeoutError(f"more than {LONGEST} seconds")

    signal.signal(signal.SIGALRM, too_long)
    rng, end, tried = np.random.default_rng(seed), time.monotonic() + seconds, 0
    sources = [files(directory, rng), stores(directory, rng), arguments(rng)]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    mistakes: list[str] = []
    while time.monotonic() < end and tried < tries:
        tried += 1
        text, attempt, is_right = next(sources[rng.integers(len(sources))])
        signal.alarm(LONGEST)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                outcome = "right" if is_right(attempt()) else "other"
            problem = "a wrong answer"
        except DrogoError:
            outcome = "clear error"
        except Exception:
            last = traceback.format_exc(limit=-1).splitlines()
            outcome, problem = "other", f"{last[-1]} {last[1].strip()}"
        signal.alarm(0)
        counts[text.partition("|")[0]].update(["tried", outcome])
        if outcome == "other":
            mistakes.append(f"{text}: {problem}")
    return counts, mistakes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tries", type=float, default=np.inf, help="the most attempts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts, mistakes = run(options.seconds, options.tries, options.seed, Path(directory))
    rows = {**dict(sorted(counts.items())), "all": sum(counts.values(), collections.Counter())}
    for kind, count in rows.items():
        numbers = [f"{count[name]} {name}" for name in ("tried", "clear error", "right", "other")]
        print(f"{kind}:", ", ".join(numbers))
    print(*sorted(mistakes), sep="\n\n")
    raise SystemExit(len(mistakes) > 0)
