"""Hostile bytes, fields and arguments: each is a clear error or a right answer.

    python tests/fuzz.py --seconds 180 --seed 1

prints, for each kind, how many were tried, were clear errors (a `DrogoError`), gave the right
answer, and did neither, which is a mistake of the library. It runs without type checks, as a user's
program does. An argument is replaced by a value of its own kind.
"""

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
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
import optax
from gymnasium.spaces import Discrete
from stable_baselines3 import DQN

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
    PotentialShaping,
    ReachGoals,
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
    sb3,
    solve,
)  # fmt: skip
from drogo.data import under
from drogo.errors import DrogoError
from drogo.integrations.torchrl import PotentialTransform
from drogo.learn import (
    CNN,
    MLP,
    Effort,
    Learner,
    Objective,
    Optimiser,
    PairMLP,
    Policy,
    Quasimetric,
    Table,
    TensorBoard,
    WandB,
)  # fmt: skip
from drogo.mdp import Costs
from drogo.online import OnlineLearner
from drogo.requests import ResultDirectory
from drogo.use import (
    BonusWrapper,
    LearnedCounts,
    Option,
    OptionWrapper,
    learned_option,
    make_option,
)
from drogo_paper.agents import Training, q_learning
from drogo_paper.engines import Job, Outcome, Store
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
ELSEWHERE = [("data.under", "data"), ("exact.solve", "mdp"), ("exact.overlap", "truth"),
             ("learn.certify", "env"), ("use.learned_option", "online"), ("learn.fit", "problem"),
             ("learn.fit", "network")]  # fmt: skip
"""Objects that are right for some arguments."""
PASSED_ON = [("learn.Policy.predict", "state"), ("learn.Policy.predict", "episode_start"),
             ("data.a trajectory", "behaviourx"), ("data.a trajectory", "truncatedx"),
             ("learn.Solution", "observationsx"), ("use.Potential.call", "observationsx"),
             ("learn.WandB", "runx"), ("sb3.Checkpoints", "onlinex")]  # fmt: skip
"""Arguments that take anything."""
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
    """Returns public functions with good arguments, by their rooms and names. A default need not
    be repeated here."""
    world = GridWorld.parse(MAP)
    env, mdp = world_env(world, "coordinates"), world.mdp
    data, lake = collect(env, 300, seed=0), gymnasium.make("FrozenLake-v1", is_slippery=False)
    solution, goals = fit(data, Column(), **SMALL), solve(mdp, Goals())
    acting = fit(collect(world_env(world), 300, seed=0), Column(), network=MLP(4, 1),
                 method=Drogo(updates=4, action_values=True))  # fmt: skip
    phi, policy = solution.potential(0), acting.policy(0)
    steps = {"reward": [-1.0, -1.0], "terminated": [False, True]}
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    table, ring = OnlineTable(*spaces.values()), np.roll(np.eye(4), 1, axis=1)
    cycle = {"mdp": MDP.from_arrays(ring, -np.ones(4)), "lam": 2.0}
    states, vector = np.zeros(mdp.n_states), exact.spectrum(mdp, 2)
    rule = {"weight": 0.5, "discount": 0.9, "terminal": "zero", "reward": -1.0, "goal_reward": 1.0}
    field = {"updates": 3, "batch_size": 4}
    swept = {**field, "penalty": 1.0}
    net, of = {"width": 4, "depth": 1}, {"mdp": mdp, "lam": 20.0}
    problem = {"lam": 20.0, "default_policy": [0.25] * 4, "costs": None}
    effort = Effort(groups=3, rollouts=1, steps=5, rounds=1)
    goal_env = ReachGoals(world_env(world, "state"))
    vectors = gymnasium.vector.SyncVectorEnv([partial(world_env, world, "coordinates")])
    option = {"policy": lambda seen: 0, "begins": lambda seen: True, "ends": lambda seen: True}
    columns = {"observation": data.observations[:2], "next_observation": data.observations[1:3],
               "action": [0, 1], **steps}  # fmt: skip
    agent = DQN("MlpPolicy", env, buffer_size=99)
    agent.learn(9, callback=sb3.LearnMap(OnlineTable(*spaces.values())))
    shaped = {"potential": phi, "weight": 0.5}
    recorded = {"action": [0, 1], "behaviour": [0.5, 0.5], "default": [0.5, 0.5], "n_actions": 2}
    figure = plot.heatmap(world, states)
    learner = Learner(Objective(Column(), Drogo(cap=2.0)), eqx.nn.Identity(), optax.sgd(0.1))
    at = {"observations": data.observations[:2]}
    every = {
        "mdp.MDP.from_arrays": (MDP.from_arrays, {"P": [[0.5, 0.5], [0.0, 1.0]], "r": [-1.0, 0.0],
            "terminal": [False, True], "start": [1.0, 0.0]}),
        "mdp.MDP.from_gymnasium": (MDP.from_gymnasium, {"env": lake, "max_states": 20}),
        "mdp.MDP.index_of": (solve(lake_mdp := MDP.from_gymnasium(lake), Column()) and
            lake_mdp.index_of, {"observations": np.arange(3)}),
        "mdp.Costs": (Costs, {}),
        "exact.solve": (exact.solve, {**of, "terminal_reward": [0.0]}),
        "exact.log_column": (exact.log_column, of),
        "exact.log_eigenvector": (exact.log_eigenvector, of),
        "exact.default_representation": (exact.default_representation, of),
        "exact.log_columns": (exact.log_columns, {**of, "goals": [0, 2]}),
        "exact.solve_columns": (exact.solve_columns, {**of, "goals": [0, 2]}),
        "exact.transfer": (exact.transfer, {**of, "terminal_rewards": [0.0]}),
        "exact.perron": (exact.perron, cycle),
        "exact.spectral_radius": (exact.spectral_radius, of),
        "exact.spectrum": (exact.spectrum, {**of, "k": 2, "matrix": "default"}),
        "exact.overlap": (exact.overlap, {"vectors": vector.vectors, "truth": vector}),
        "exact.cosines": (exact.cosines, {"vectors": vector.vectors, "truth": vector}),
        "worlds.GridWorld.parse": (GridWorld.parse, {"text": MAP}),
        "worlds.GridWorld.load": (GridWorld.load, {"source": "ring"}),
        "worlds.GridWorld.observations": (world.observations, {"kind": "pixels"}),
        "worlds.MiniGridWorld": (MiniGridWorld, {"env": "MiniGrid-Empty-5x5-v0", "step_limit": 9}),
        "worlds.NeverEnding": (NeverEnding, {"env": env, "at_end": 0.0}),
        "worlds.ReachGoals": (ReachGoals, {"env": world_env(world, "state")}),
        "data.collect": (collect, {"env": env, "n": 20, "seed": 0, "start": "uniform", "reward":
            -1.0, "terminal_reward": 0.0, "policy": None, "key": None, "file": None}),
        "data.under": (under, {"data": data, "default_policy": [0.25] * 4}),
        "data.Transitions.from_arrays": (Transitions.from_arrays, {
            "observations": [[0.0], [1.0]], "next_observations": [[1.0], [2.0]], "truncated":
            [False, False], "terminal_reward": [0.0, 0.0], **steps, **recorded}),
        "data.Transitions.from_table": (Transitions.from_table, {"observations": [[0.0], [1.0],
            [2.0]], "state": [0, 1], "next_state": [1, 2], **steps, **recorded}),
        "data.Transitions.from_trajectories": (Transitions.from_trajectories, {"trajectories": [{
            "observations": [0, 1, 2], "actions": [0, 1], "rewards": [-1.0, -1.0], "terminated":
            True}], "action_space": Discrete(2), "reward": -1.0}),
        "data.a trajectory": (lambda **a: Transitions.from_trajectories([a]), {
            "observations": [[0.0], [1.0], [2.0]], "actions": [0, 1], "rewards": [-1.0, -1.0],
            "behaviour": [0.5, 0.5], "terminated": [False, True], "truncated": False}),
        "data.Transitions.from_replay_buffer": (Transitions.from_replay_buffer, {
            "buffer": agent.replay_buffer, "reward": -1.0, "terminal_reward": 0.0}),
        "data.Transitions.concatenate": (Transitions.concatenate, {"parts": [data, data]}),
        "data.Transitions.batches": (lambda **a: list(data.batches(**a)), {"size": 9, "seed": 0}),
        "data.Transitions.rows": (data.rows, {"which": [0, 1]}),
        "data.Transitions.spectral_radius": (data.spectral_radius, {"lam": 2.0}),
        "data.Transitions.save": (data.save, {"path": "/nowhere/x.npz"}),
        "data.Transitions.load": (Transitions.load, {"path": "nowhere.npz"}),
        "learn.fit": (lambda **a: fit(**{**SMALL, **a}), {"data": data, "problem": Column(), "method":
            Drogo(updates=2), "network": MLP(4, 1), "optimiser": None, "truth": None, "callbacks":
            (), "checkpoint": None, "continue_from": None, "seeds": 1}),
        "learn.recommend": (recommend, {"data": data, "problem": Column()}),
        "learn.certify": (certify, {"solution": solution, "env": env, "starts": 2, "effort": effort,
            "reward": None, "terminal_reward": None, "start": None, "key": None}),
        "learn.Effort": (Effort, {}), "learn.Table": (Table, {}), "learn.MLP": (MLP, net),
        "learn.CNN": (CNN, net), "learn.PairMLP": (PairMLP, net), "learn.Optimiser": (Optimiser, {}),
        "learn.Quasimetric": (Quasimetric, {**net, "components": 2, "length": 2}),
        **{f"learn.{kind.__name__}": (kind, swept) for kind in (ALLO, GDO, GGDO, LogGDO, NaturalGDO)},
        **{f"learn.{kind.__name__}": (kind, field) for kind in (Drogo, Paper, Regression)},
        "learn.Solution": (lambda **a: solution(*a.values()), at), "learn.Solution.index": (solution.index, {"seed": 0}),
        "learn.Solution.potential": (solution.potential, {"goal_reward": 1.0, "discount": 0.9,
            "normalised": True}),
        "learn.Solution.policy": (acting.policy, {}), "learn.Solution.value_fn": (
            solution.value_fn, {}),
        "learn.Solution.transfer": (goals.transfer, {"terminal_rewards": [0.0]}),
        "learn.Solution.save": (solution.save, {"path": "/nowhere/x.npz"}),
        "learn.Policy": (Policy, {"logits": len, "shape": (2,)}),
        "learn.Policy.predict": (policy.predict, {"observation": 0}),
        "learn.Policy.probabilities": (policy.probabilities, {"observations": [0, 1]}),
        "learn.Learner": (Learner, {"objective": learner.objective, "network": eqx.nn.Identity(),
            "optimiser": optax.sgd(0.1)}),
        "learn.Objective": (Objective, {"problem": Column(), "method": Drogo(cap=2.0)}),
        "learn.TensorBoard": (TensorBoard, {"directory": "nowhere"}),
        "learn.WandB": (WandB, {}),
        **{f"problems.{kind.__name__}": (kind, problem) for kind in (Column, Continuing)},
        "problems.Goals": (Goals, {**problem, "radius": 0.5, "most_goals": 9}),
        "problems.Spectrum": (Spectrum, {**problem, "vectors": 2, "matrix": "default"}),
        "problems.solve": (solve, {"source": mdp, "problem": Column()}),
        "problems.load": (load, {"path": "nowhere.npz"}),
        "use.Potential": (Potential, {"function": len, "shape": (2,), "discount": 0.9}),
        "use.Potential.call": (lambda **a: phi(*a.values()), at), "use.Potential.at": (phi.at, {"observation": [0.5, 0.5]}),
        "use.Potential.from_states": (Potential.from_states, {
            "observations": np.arange(3), "values": np.zeros(3), "discount": 0.9}),
        "use.Potential.shaped": (phi.shaped, {"rewards": [1.0, 1.0], **at, "next_observations":
            data.observations[:2], "terminated": [False, True], "discount": 0.9, "weight": 0.5}),
        "use.Potential.normalised": (phi.normalised, {"data": data}),
        "use.Potential.discounted": (phi.discounted, {"goal_reward": 1.0, "discount": 0.9}),
        "use.Potential.to_onnx": (phi.to_onnx, {"path": "/nowhere/x.onnx"}),
        "use.PotentialShaping": (PotentialShaping, {"env": env, **shaped}),
        "use.VectorPotentialShaping": (VectorPotentialShaping, {"env": vectors, **shaped}),
        "use.GoalShaping": (GoalShaping, {"env": goal_env, "value": goals.value(0)}),
        "use.BonusWrapper": (BonusWrapper, {"env": env, "shaping": table}),
        "use.Option": (Option, option),
        "use.OptionWrapper": (OptionWrapper, {"env": env, "options": [Option(**option)]}),
        "use.make_option": (make_option, {"world": env, "potential": states, "method": "climb"}),
        "use.learned_option": (learned_option, {"online": table}),
        "use.LearnedCounts": (LearnedCounts, {**spaces, "features": 2, "lam": 1.0, **net}),
        "online.OnlineTable": (OnlineTable, {**spaces, "problem": Column(), **rule}),
        "online.OnlineMap": (OnlineMap, {**spaces, "problem": Column(), "method": Drogo(), "network":
            MLP(4, 1), "capacity": 10, "sides": None, **rule}),
        "online.OnlineTable.observe": (OnlineTable(*spaces.values()).observe, columns),
        "online.OnlineTable.shaped": (table.shaped, columns),
        "online.OnlineTable.potential": (table.potential, at),
        "online.OnlineTable.act": (table.act, {**at, "rng": np.random.default_rng(0)}),
        "online.OnlineTable.save": (table.save, {"path": "/nowhere/x.npz"}),
        "online.OnlineTable.restore": (table.restore, {"path": "nowhere.npz"}),
        "online.OnlineShaping": (OnlineShaping, {"env": env, "online": table}),
        "online.VectorOnlineShaping": (VectorOnlineShaping, {"env": vectors, "online": table}),
        "online.OnlineLearner": (OnlineLearner, {"problem": Column(), "method": None, "network":
            eqx.nn.MLP(2, 4, 4, 1, key=jax.random.key(0)), "n_actions": 4}),
        "sb3.LearnMap": (sb3.LearnMap, {"shaping": table}),
        "sb3.Checkpoints": (sb3.Checkpoints, {"path": "nowhere.npz", "online": table}),
        "sb3.save": (sb3.save, {"path": "/nowhere/x.npz", "agent": agent, "online": table}),
        "sb3.restore": (sb3.restore, {"path": "nowhere.npz", "agent": agent, "online": table}),
        "torchrl.PotentialTransform": (PotentialTransform, shaped),
        "plot.heatmap": (plot.heatmap, {"world": world, "values": states}),
        "plot.goal_maps": (plot.goal_maps, {"world": world, "maps": {"a": states}}),
        "plot.learned": (plot.learned, {"world": world, "truth": states, "v": solution.v, "history":
            solution.history, "title": "x"}),
        "plot.solution": (plot.solution, {"found": solution}),
        "plot.certificate": (plot.certificate, {"result": certify(solution, env, starts=2, effort=
            effort)}),
        "plot.curves": (plot.curves, {"axes": figure.axes[0], "history": solution.history}),
        "plot.as_png": (plot.as_png, {"figure": figure, "dpi": 10}),
        "paper.Training": (Training, {"step_limit": 10, "discount": 0.9, "epsilon": 0.1}),
        "paper.q_learning": (q_learning, {"mdp": mdp, "training": Training(10, steps=20, every=10),
            "step_size": np.ones(2), "seed": np.arange(2), "potential": np.zeros((2, mdp.n_states)),
            "weight": np.zeros(2)}),
        "paper.Job": (lambda **a: Job(**a).id, {
            "function": "run_jobs:square", "settings": {"x": 1}, "label": "", "seconds": 1.0}),
    }  # fmt: skip
    for name, (function, good) in every.items():
        parts = inspect.signature(function).parameters.values()
        defaults = {part.name: part.default for part in parts if part.default is not part.empty}
        every[name] = function, {**defaults, **good}
    return every


def arguments(rng: np.random.Generator) -> Iterator[Attempt]:
    """Good calls of public functions, in each of which one argument is another value of its kind, a
    value or an object that belongs elsewhere, or misspelt."""
    functions = calls()
    objects = [functions[name][1][part] for name, part in ELSEWHERE]
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
            wrong = [part for part in wrong if (name, part[0]) not in PASSED_ON]
            cases += [(name, argument, *part, True) for part in wrong]
    for k in itertools.chain.from_iterable(rng.permutation(len(cases)) for _ in itertools.count()):
        name, replaced, argument, value, wrong = cases[k]
        function, good = functions[name]
        kept = {key: part for key, part in good.items() if key != replaced}
        # An accepted value of the same kind is checked by the tests of its room.
        text = (
            f"{'wrong ' * wrong}arguments of {name.partition('.')[0]}|{name} {argument}={value!r}"
        )
        call = partial(function, **kept, **{argument: value})
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
