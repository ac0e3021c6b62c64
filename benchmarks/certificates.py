"""Certificates by rollouts, of good fits and of damaged ones, beside the truth.

    uv run benchmarks/certificates.py --only damaged      250 damaged fits and 50 good ones
    uv run benchmarks/certificates.py --only worlds       walled rooms and MountainCar

Damaged fits are of the four grid worlds, from coordinates: noise on all parameters of the network,
a region of the map that is raised, one state that is much too low while all others follow from it,
a fit that was stopped early, and data in which a door was never passed. Prints Markdown.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from common import (
    LAM,
    WORLDS,
    control_data,
    control_truth,
    data_of,
    env_of,
    finish,
    job,
    learn,
    timed,
    truth_places,
)
from drogo import (
    Column,
    Drogo,
    GridWorld,
    Regression,
    Solution,
    Transitions,
    certify,
    exact,
    fit,
    solve,
)
from drogo.data.simulate import simulator
from drogo.learn.certify import Map, certify_maps, tolerated
from drogo.worlds.control import STARTS, STEP_COSTS
from drogo.worlds.shipped import ROOM_IDS as ROOMS
from drogo_paper.engines import Outcome
from tables import Part, formatted, parse_options, write_parts

COLUMN = Column(lam=LAM)
KINDS = ("noise", "raised region", "lowered state", "stopped early", "data without a door", "good")
Values = Callable[[np.ndarray], np.ndarray]


def of_network(solution: Solution, seed: int) -> Values:
    return solution.problem.values_of(solution, seed)


def noisy(solution: Solution, seed: int, world: GridWorld, rng: np.random.Generator) -> Values:
    """Changes every parameter by some percents of the spread of its layer."""
    share, k = rng.uniform(0.02, 0.3), solution.index(seed)
    assert solution.state is not None

    def changed(leaf: Any) -> np.ndarray:
        noise = share * np.std(leaf[k]) * rng.normal(size=leaf.shape)
        return np.asarray(leaf) + noise.astype(np.float32)

    params = jax.tree.map(changed, solution.state.params)
    return of_network(replace(solution, state=replace(solution.state, params=params)), seed)


def raised(solution: Solution, seed: int, world: GridWorld, rng: np.random.Generator) -> Values:
    """Raises a round region of the map by some units."""
    values, height, radius = (
        of_network(solution, seed),
        rng.uniform(1.0, 6.0),
        rng.uniform(0.1, 0.3),
    )
    live = np.setdiff1d(np.arange(len(solution.observations)), solution.terminal_states)
    centre = solution.observations[rng.choice(live)]
    width = np.ptp(solution.observations, axis=0)

    def of_batch(batch: np.ndarray) -> np.ndarray:
        near = np.linalg.norm((batch - centre) / width, axis=1) < radius
        return values(batch) + np.where(near, height, 0.0)

    return of_batch


def lowered(solution: Solution, seed: int, world: GridWorld, rng: np.random.Generator) -> Values:
    """Makes one state much too low, and lets all others follow from that: rollouts avoid it."""
    mdp, k = world.mdp, solution.index(seed)
    low = rng.choice(np.flatnonzero(~mdp.terminal))
    fixed = mdp.terminal | (np.arange(mdp.n_states) == low)
    e = np.exp(np.where(mdp.terminal, mdp.reward / LAM, 0.0))
    e[low] = np.exp(solution.v[k, low] - rng.uniform(5.0, 25.0))
    matrix = mdp.P.toarray() * np.exp(mdp.reward / LAM)[:, None]
    rest = np.eye((~fixed).sum()) - matrix[np.ix_(~fixed, ~fixed)]
    e[~fixed] = np.linalg.solve(rest, matrix[np.ix_(~fixed, fixed)] @ e[fixed])
    return lambda batch: np.log(e)[: len(batch)]  # it is called with the table of all states


DAMAGE = {"noise": noisy, "raised region": raised, "lowered state": lowered,
          "good": lambda solution, seed, world, rng: of_network(solution, seed)}  # fmt: skip


def without_door(world: GridWorld, data: Transitions, rng: np.random.Generator) -> Transitions:
    """Leaves out all transitions into one state without which many cannot reach the goal as
    before."""
    truth = exact.log_column(world.mdp, LAM)
    live = np.flatnonzero(~world.mdp.terminal)
    names = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward",
             "action", "behaviour")  # fmt: skip
    for door in rng.permutation(live):
        kept = (data.next_state != door) & (data.state != door)
        columns = {name: getattr(data, name)[kept] for name in names}
        cut = Transitions.from_table(data.observations, **columns, n_actions=data.n_actions)
        others = np.setdiff1d(live, [door])
        passable = truth[door] < -0.5 and np.isin(others, cut.state).all()
        if passable and np.isfinite(solve(cut, COLUMN).v[0, others]).all():
            return cut
    raise RuntimeError("every state is needed")


def damaged(world: GridWorld, kind: str, numbers: list[int]) -> Iterator[Values]:
    """Yields the maps of some fits, each damaged in its own way."""
    data = data_of(world, "coordinates", 20_000)
    solution = fit(data, COLUMN, Regression(), seeds=numbers) if kind in DAMAGE else None
    for number in numbers:
        rng = np.random.default_rng([KINDS.index(kind), number])
        if solution is not None:
            yield DAMAGE[kind](solution, number, world, rng)
        elif kind == "stopped early":
            early = Drogo(updates=int(rng.integers(20, 400)))
            yield of_network(fit(data, COLUMN, early, seeds=[number]), number)
        else:
            cut = without_door(world, data, rng)
            yield of_network(fit(cut, COLUMN, Regression(), seeds=[number]), number)


def run_damaged(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Returns for every map of one world and kind its true error, and its certificate."""
    warnings.simplefilter("ignore")
    world, numbers = GridWorld.load(settings["world"]), settings["numbers"]
    sim = simulator(env_of(world, "state"))
    truth, table = exact.log_column(world.mdp, LAM), world.observations("coordinates")
    live, maps = ~world.mdp.terminal, []
    for k, values in enumerate(damaged(world, settings["kind"], numbers)):
        number, vector = numbers[k], values(table)  # of all states at once, and then looked up
        allowed = float(tolerated(vector[None, live], 0.1)[0])
        lookup = Map(partial(np.take, vector), LAM, allowed, number)
        certificate = certify_maps([lookup], sim, seed=number)
        at_starts = np.abs(certificate.claimed[0] - truth[certificate.observations]).max()
        maps.append({"off": bool(np.abs(vector - truth)[live].max() > allowed),
                     "off at a start": bool(at_starts > allowed), "status": certificate.status[0],
                     "too small": bool(certificate.error[0] < at_starts - 1e-6)})  # fmt: skip
        report((k + 1) / len(numbers))
    return Outcome({}, {"maps": maps})


def rows_of_damaged(options: Namespace) -> Iterator[list[Any]]:
    """Damage is a true error above the tolerance in any state; a certificate sees 20 of them."""
    shares = [list(range(k, options.each, len(WORLDS))) for k in range(len(WORLDS))]
    jobs = {
        (kind, world): job("certificates:run_damaged", f"{kind}, {world}", kind=kind, world=world,
                           numbers=numbers)
        for kind, (world, numbers) in product(KINDS, zip(WORLDS, shares, strict=True))
        if numbers
    }  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    statuses = ("refuted", "undecided", "certified")
    for kind in KINDS:
        maps = [
            one for key, record in records.items() if key[0] == kind for one in record.facts["maps"]
        ]
        off, fine = (
            Counter(one["status"] for one in maps if one["off"] == is_off)
            for is_off in (True, False)
        )
        missed = sum(one["off at a start"] and one["status"] == "certified" for one in maps)
        yield [kind, len(maps), off.total(), *(off[status] for status in statuses), missed,
               *(fine[status] for status in reversed(statuses)),
               sum(one["too small"] for one in maps)]  # fmt: skip


def run_world(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Fits one seed of a continuous world with default settings, and certifies it."""
    name, truth = settings["world"], control_truth(settings["world"])
    data, method = control_data(name, settings["transitions"]), Drogo(updates=settings["updates"])
    solution, outcome = learn(data, None, method, settings, scratch, report)
    assert solution is not None
    start = None if name in ROOMS else STARTS[name]
    env = gymnasium.make(name).unwrapped
    seconds, certificate = timed(certify, solution, env, start=start, reward=STEP_COSTS.get(name))
    exact_v = truth(certificate.observations.astype(np.float64))
    places = truth_places(truth)
    error = np.abs(solution(places.astype(np.float32))[0] - truth(places))
    facts = {"tolerance": float(certificate.tolerance[0]), "depth": float(np.ptp(exact_v)),
             "certificate": certificate.status[0], "within": float(certificate.error[0]),
             "at starts": float(np.abs(certificate.claimed[0] - exact_v).max()),
             "anywhere": float(np.nanmax(error)), "mean": float(np.nanmean(error)),
             "ascents": int(certificate.ascents.sum()), "certify": seconds}  # fmt: skip
    return Outcome({}, {**outcome.facts, **facts})


def rows_of_worlds(options: Namespace) -> Iterator[list[str]]:
    jobs = {
        (name, seed): job("certificates:run_world", f"{name}, seed {seed}", world=name,
                          seeds=[seed], transitions=options.transitions, updates=options.updates)
        for name, seed in product(options.worlds, range(options.seeds))
    }  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    forms = {"depth": ".0f", "tolerance": ".2f", "within": ".2f", "at starts": ".2f",
             "anywhere": ".2f", "mean": ".2f", "certificate": "", "ascents": "d",
             "seconds": ".0f", "certify": ".0f"}  # fmt: skip
    for name in options.worlds:
        facts = [records[name, seed].facts for seed in range(options.seeds)]
        columns = zip(*(formatted(one, forms) for one in facts), strict=True)
        yield [name, *map(", ".join, columns)]


PARTS = {
    "damaged": Part(
        "certificates-damaged",
        rows_of_damaged,
        "Certificates of maps that were damaged on purpose, and of good ones, in the four grid "
        "worlds. A map is off if some value of it is off by more than the tolerance.",
        ("kind", "maps", "off", "of these refuted", "undecided", "certified",
         "certified, though off at a start", "not off: certified", "undecided", "refuted",
         "certified error too small"),
        "A certificate sees 20 of 104 to 272 states.",
    ),
    "worlds": Part(
        "certificates-worlds",
        rows_of_worlds,
        "Certificates of continuous worlds, seed by seed, with default settings and "
        f"{{transitions:,}} transitions, λ = {LAM:g}. The truth is a fine discretisation.",
        ("world", "depth", "tolerance", "certified to within", "truly off at the 20 starts",
         "truly off anywhere", "mean", "by rollouts", "steepest ascents that arrive",
         "seconds to learn", "to certify"),
    ),
}  # fmt: skip


if __name__ == "__main__":
    options = parse_options(
        __doc__, only=tuple(PARTS), each=50, worlds=(*ROOMS, "MountainCar-v0"), seeds=2,
        transitions=200_000, updates=None, workers=0, out=Path("results/certificates"),
    )  # fmt: skip
    write_parts(PARTS, options)
