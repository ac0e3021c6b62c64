"""Hostile bytes, fields and arguments: each is a clear error or a right answer.

    python tests/fuzz.py --seconds 180 --seed 1

prints, for each kind, how many were tried, were clear errors (a `DrogoError`), gave the right
answer, and did neither, which is a mistake of the library. It runs without type checks, as a user's
program does. Every argument of every public function is replaced by values of its own kind, by
objects that belong elsewhere, and by one of a misspelt name."""

import argparse
import collections
import contextlib
import inspect
import io
import itertools
import json
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
import optax
from gymnasium.spaces import Discrete
from stable_baselines3 import DQN

import drogo
from drogo import Column, Drogo, GridWorld, OnlineTable, Transitions, collect, exact, fit, load
from drogo.errors import ArgumentError, DrogoError
from drogo.integrations import sb3
from drogo.learn import MLP
from drogo.requests import ResultDirectory
from drogo.use import Option
from drogo.use.shaping import spaces_of
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
ELSEWHERE = ["data.under data", "exact.solve mdp", "exact.overlap truth", "certify env", "sb3.LearnMap shaping",
             "fit problem", "fit network"]  # fmt: skip
"""Objects that are right for some arguments."""
PASSED_ON = """Policy.predict state, Policy.predict episode_start, a trajectory behaviourx, solve source,
a trajectory truncatedx, a solution observationsx, a potential observationsx, learn.WandB runx,
sb3.Checkpoints onlinex, Transitions.from_replay_buffer terminal_observation"""
"""Arguments that take anything."""
ROOMS = ("mdp", "exact", "worlds", "data", "learn", "problems", "use", "online", "plot",
         "integrations.sb3", "integrations.torchrl")  # fmt: skip
METHODS = """MDP.from_arrays MDP.from_gymnasium GridWorld.parse GridWorld.load Potential.from_states
Transitions.from_arrays Transitions.from_table Transitions.from_trajectories
Transitions.from_replay_buffer Transitions.concatenate Transitions.load"""
"""Class methods that make objects."""
MADE = """Batch Certificate DefaultPolicy DrogoError Edges Eigenvectors ExploringDQN GoalTask GridWorld
HasMDP Judge LogVector MDP OnlineState Prepared Report Sample ShapedReplayBuffer Solution State Step
StepBatch Transitions names river_swim six_arms"""
"""Results, which are not made by their users, and functions without arguments."""
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
        named = read.__dataclass_fields__.keys() - {"origin"}  # which may hold anything
        return {name: np.asarray(getattr(read, name)) for name in named}

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
    """Returns public functions with good arguments, by their names. Most arguments mean the same in
    all functions; others, and those of functions that take any, are in `special`."""
    world = GridWorld.parse(MAP)
    env, mdp, states = world_env(world, "coordinates"), world.mdp, np.zeros(world.n_states)
    data, lake = collect(env, 300, seed=0), gymnasium.make("FrozenLake-v1", is_slippery=False)
    truth = {"column": drogo.solve(data, Column()).v[0]}
    solution, goals = fit(data, Column(), **SMALL, truth=truth), drogo.solve(mdp, drogo.Goals())
    method, observations = Drogo(updates=4, action_values=True), data.observations
    numbered = collect(world_env(world), 300, seed=0)
    acting = fit(numbered, Column(), method, network=SMALL["network"])
    phi, policy, table = solution.potential(0), acting.policy(0), OnlineTable(*spaces_of(env))
    agent = DQN("MlpPolicy", env, buffer_size=99)
    agent.learn(9, callback=sb3.LearnMap(table))
    effort = drogo.learn.Effort(groups=3, rollouts=1, steps=5, rounds=1)
    usual = {
        **SMALL, "mdp": mdp, "lam": 20.0, "goals": [0, 2], "terminal_rewards": [0.0], "k": 2, "vectors": 2,
        "matrix": "default", "reward": -1.0, "terminal_reward": 0.0, "text": MAP, "world": world, "env": env,
        "at_end": 0.0, "step_limit": 9, "max_states": 20, "n": 20, "start": "reset", "seed": 0, "data": data,
        "problem": Column(), "default_policy": [0.25] * 4, "radius": 0.5, "most_goals": 9, "parts": [data, data],
        "buffer": agent.replay_buffer, "action_space": env.action_space, "weight": 0.5, "discount": 0.9,
        "observation_space": env.observation_space, "updates": 3, "batch_size": 4, "penalty": 1.0, "width": 4,
        "depth": 1, "components": 2, "length": 2, "logits": len, "function": len, "shape": (2,), "path": "/dev/null/x",
        "directory": "nowhere", "potential": phi, "online": table, "shaping": table, "goal_reward": 1.0,
        "value": goals.value(0), "values": states, "agent": agent, "maps": {"a": states}, "history": solution.history,
        "v": solution.v, "found": solution, "solution": solution, "starts": 2, "effort": effort, "title": "x", "dpi": 10,
        "observations": observations[:2], "epsilon": 0.1, "kind": "pixels", "size": 9, "which": [0, 1],
    }  # fmt: skip
    steps = {"reward": [-1.0, -1.0], "terminated": [False, True], "action": [0, 1]}
    columns = {**steps, "observation": observations[:2], "next_observation": observations[1:3]}
    recorded = {**steps, "behaviour": [0.5, 0.5], "default": [0.5, 0.5], "n_actions": 2,
                "truncated": [False, False]}  # fmt: skip
    episode = {"observations": [0, 1, 2], "actions": [0, 1], "rewards": [-1.0] * 2}
    ring = drogo.MDP.from_arrays(np.roll(np.eye(4), 1, axis=1), -np.ones(4))
    envs = gymnasium.vector.SyncVectorEnv([partial(world_env, world, "coordinates")])
    option = {"policy": lambda seen: 0, "begins": lambda seen: True, "ends": lambda seen: True}
    vector, figure = exact.spectrum(mdp, 2), drogo.plot.heatmap(world, states)
    overlap, capped = {"vectors": vector.vectors, "truth": vector}, Drogo(cap=2.0)
    special: dict[str, dict[str, Any]] = {
        "MDP.from_arrays": {"P": [[0.5, 0.5], [0.0, 1.0]], "r": [-1.0, 0.0], "terminal": [False, True],
            "start": [1.0, 0.0], "default_policy": None}, "MDP.from_gymnasium": {"env": lake},
        "exact.perron": {"mdp": ring}, "exact.overlap": overlap, "exact.cosines": overlap,
        "GridWorld.load": {"source": "ring"}, "MiniGridWorld": {"env": "MiniGrid-Empty-5x5-v0"},
        "Transitions.from_arrays": {"observations": [[0.0], [1.0]], "next_observations": [[1.0],
            [2.0]], **recorded}, "Transitions.from_table": {"observations": [[0.0], [1.0], [2.0]],
            "state": [0, 1], "next_state": [1, 2], **recorded},
        "Transitions.from_trajectories": {"trajectories": [{**episode, "terminated": True}],
            "action_space": Discrete(2)},
        "certify": dict.fromkeys(("reward", "terminal_reward", "start", "key")),
        "learn.Learner": {"objective": drogo.learn.Objective(Column(), capped), "network":
            eqx.nn.Identity(), "optimiser": optax.sgd(0.1)}, "learn.Objective": {"method": capped},
        "solve": {"source": mdp}, "Potential.from_states": {"observations": np.arange(3), "values":
            np.zeros(3)}, "VectorPotentialShaping": {"env": envs}, "VectorOnlineShaping": {"env": envs},
        "GoalShaping": {"env": ReachGoals(world_env(world, "state"))}, "use.Option": option,
        "use.OptionWrapper": {"options": [Option(**option)]}, "use.make_option": {"world": env,
            "potential": states, "method": "climb"}, "paper.LearnedCounts": {"features": 2, "depth": 1},
        "OnlineMap": {"method": Drogo(), "capacity": 10, "sides": None}, "online.OnlineLearner": {
            "method": None, "network": eqx.nn.MLP(2, 4, 4, 1, key=jax.random.key(0)), "n_actions": 4},
        "plot.learned": {"truth": states}, "plot.certificate": {"result": drogo.certify(solution, env,
            starts=2, effort=effort)}, "plot.curves": {"axes": figure.axes[0]}, "plot.as_png": {"figure":
            figure}, "MDP.index_of": {"observations": np.arange(3)},
        "a trajectory": {"observations": [[0.0], [1.0], [2.0]], "actions": [0, 1], "rewards": [-1.0, -1.0],
            "behaviour": [0.5, 0.5], "terminated": [False, True], "truncated": False},
        "data.batches": {"size": 9, "seed": 0}, "a solution": {"observations": observations[:2]},
        "a potential": {"observations": observations[:2]}, "Policy.predict": {"observation": 0},
        "Policy.probabilities": {"observations": [0, 1]}, "phi.at": {"observation": [0.5, 0.5]},
        "phi.shaped": {"terminated": [False, True], "next_observations": observations[:2], "rewards":
            [1.0, 1.0]}, "online.observe": {**columns, "terminal_reward": None}, "online.shaped": columns,
        "online.act": {"rng": np.random.default_rng(0)}, "paper.q_learning": {"training": Training(10,
            steps=20, every=10), "step_size": np.ones(2), "seed": np.arange(2), "potential": np.zeros((2,
            mdp.n_states)), "weight": np.zeros(2)}, "paper.Job": {"function": "run_jobs:square",
            "settings": {"x": 1}, "label": "", "seconds": 1.0},
    }  # fmt: skip
    functions: dict[str, Callable[..., Any]] = {
        "MDP.index_of": drogo.MDP.from_gymnasium(lake).index_of, "data.rows": data.rows,
        "GridWorld.observations": world.observations, "data.save": data.save, "phi.at": phi.at,
        "a trajectory": lambda **a: Transitions.from_trajectories([a]), "paper.Training": Training, "paper.LearnedCounts": LearnedCounts,
        "data.batches": lambda **a: list(data.batches(**a)), "a potential": lambda **a: phi(*a.values()),
        "a solution": lambda **a: solution(*a.values()), "solution.index": solution.index,
        "solution.potential": solution.potential, "solution.policy": acting.policy,
        "solution.value_fn": solution.value_fn, "solution.save": solution.save, "goals.transfer":
        goals.transfer, "Policy.predict": policy.predict, "Policy.probabilities": policy.probabilities,
        "phi.shaped": phi.shaped, "phi.normalised": phi.normalised, "phi.to_onnx": phi.to_onnx,
        "phi.discounted": phi.discounted, "online.observe": OnlineTable(*spaces_of(env)).observe,
        "online.shaped": table.shaped, "online.potential": table.potential, "online.act": table.act,
        "online.save": table.save, "online.restore": table.restore, "paper.q_learning": q_learning,
        "paper.Job": lambda **a: Job(**a).id, **{name: attrgetter(name)(drogo) for name in METHODS.split()},
    }  # fmt: skip
    rooms = {room.rpartition(".")[2]: import_module(f"drogo.{room}") for room in ROOMS}
    for room, module in {"": drogo, **rooms}.items():
        for name in getattr(module, "__all__", dir(module)):
            part = getattr(module, name)
            is_own = isinstance(part, type | FunctionType) and part.__module__[:6] == "drogo."
            is_known = name in MADE.split() or part in functions.values()
            if is_own and not is_known and not name.startswith(("Abstract", "_")):
                functions[f"{room}.{name}".removeprefix(".")] = part
    called = {}
    for name, function in functions.items():
        given, good = {**usual, **special.get(name, {})}, special.get(name, {}).copy()
        for part in inspect.signature(function).parameters.values():
            if part.kind not in (part.VAR_POSITIONAL, part.VAR_KEYWORD):
                good[part.name] = given.get(part.name, part.default)
                assert good[part.name] is not part.empty, f"{name} has no good {part.name}"
        called[name] = function, good
    return called


def arguments(rng: np.random.Generator) -> Iterator[Attempt]:
    """Good calls of public functions, in each of which one argument is another value of its kind, a
    value or an object that belongs elsewhere, or misspelt."""
    functions = calls()
    objects = [functions[name][1][part] for name, part in map(str.split, ELSEWHERE)]
    kinds = {bool: NUMBERS, str: TEXTS, (int, float): NUMBERS, (list, np.ndarray): ARRAYS}
    cases = []
    for name, (_, good) in functions.items():
        for argument, value in good.items():
            same = [kinds[kind] for kind in kinds if isinstance(value, kind)][:1]
            cases += [(name, argument, argument, part, False) for part in itertools.chain(*same)]
            others = [] if argument == "env" else [eqx.nn.MLP] if argument == "network" else objects
            others = [*OBJECTS, *(part for part in others if not isinstance(value, type(part)))]
            wrong = [*((argument, part) for part in others), (argument + "x", value)]
            wrong = [] if name.startswith("paper") else wrong
            wrong = [part for part in wrong if f"{name} {part[0]}" not in PASSED_ON]
            cases += [(name, argument, *part, True) for part in wrong]
    for k in itertools.chain.from_iterable(rng.permutation(len(cases)) for _ in itertools.count()):
        name, replaced, argument, value, wrong = cases[k]
        function, good = functions[name]
        kept = {key: part for key, part in good.items() if key != replaced}
        module, call = function.__module__, partial(function, **kept, **{argument: value})
        room = module.split(".")[1] if module.startswith("drogo.") else name
        text = f"{'wrong ' * wrong}arguments of {room}|{name} {argument}={value!r}"
        # An accepted value of the same kind is checked by the tests of its room.
        yield (
            text[:200],
            partial(naming, argument, call) if wrong else call,
            lambda _, w=wrong: not w,
        )


def naming(argument: str, call: Callable[[], Any]) -> Any:
    """Calls a function whose errors must name an argument."""
    try:
        return call()
    except ArgumentError as error:
        if error.argument is None and argument not in str(error):
            raise AssertionError(f"no argument is named: {error}") from error
        raise


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
        (inside := Path(directory, "inside")).mkdir()
        with contextlib.chdir(inside):  # names of files may be replaced by "2" or "../x"
            counts, mistakes = run(options.seconds, options.tries, options.seed, Path(directory))
    rows = {**dict(sorted(counts.items())), "all": sum(counts.values(), collections.Counter())}
    for kind, count in rows.items():
        numbers = [f"{count[name]} {name}" for name in ("tried", "clear error", "right", "other")]
        print(f"{kind}:", ", ".join(numbers))
    print(*sorted(mistakes), sep="\n\n")
    raise SystemExit(len(mistakes) > 0)
