"""`fit`: from transitions, a problem and a method to a solution."""

import hashlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from drogo import errors
from drogo.data import Transitions
from drogo.data.index import read_rows
from drogo.device import to_device
from drogo.errors import ArgumentError, ArgumentTypeError, Diverged, counted
from drogo.files import as_path
from drogo.learn.architectures import (
    MLP,
    AbstractArchitecture,
    CustomOptimiser,
    Optimiser,
    as_architecture,
    as_optimiser,
)
from drogo.learn.batches import make_data, make_plan
from drogo.learn.learner import Learner, Objective, State, make_learner, take
from drogo.learn.method import AbstractMethod
from drogo.learn.methods import Drogo
from drogo.learn.problem import AbstractProblem, Point, Source
from drogo.learn.settings import as_json, bare, grid_of, seed_list
from drogo.learn.solution import Solution
from drogo.learn.train import Callback, Progress, Training, diverged_at, history_rows, train
from drogo.progress import progress_bar
from drogo.requests import versions

Seeds = int | np.integer | Sequence[int] | np.ndarray  # The number of seeds, or a list of them.
Vector = Float[np.ndarray, "..."]
Truth = Mapping[str, Vector | Callable[[float], Vector]]
MOST_HASHED = 20_000  # The number of observations that go into the digest of a data set.


def fit(
    data: Transitions,
    problem: AbstractProblem,
    method: AbstractMethod | None = None,
    *,
    seeds: Seeds = 1,
    network: Any = None,
    optimiser: Any = None,
    truth: Truth | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    continue_from: Solution | None = None,
    **unknown: Any,
) -> Any:
    """Learns the solution of a problem from transitions alone.

    Args:
        problem: The problem, for example `drogo.Column(lam=20.0)`. A list in a field of the
            problem, the method or the optimiser is a sweep over its values.
        method: The method, for example `drogo.Drogo()`, the paper's objective. By default
            `drogo.recommend(data, problem)`.
        seeds: The number of seeds (0, 1, ...), or a list of them.
        network: An architecture such as `drogo.learn.MLP(width=256)`, an `equinox.Module` from a
            batch of observations to its outputs, or a function from a JAX key to such a module. By
            default one that suits the data.
        optimiser: A `drogo.learn.Optimiser`, or any optax transformation. By default one that suits
            the data.
        truth: Known vectors over `data.observations`, or functions of lam that return them, to
            compare with during training, by name.
        checkpoint: A file that is written every few seconds. If it exists and belongs to this fit,
            training continues from it to the same result.
        callbacks: Functions that are called with a `drogo.learn.Report` at each logged update. A
            callback that returns False stops the fit, which returns the solution so far. So does
            Ctrl-C at a terminal or in a notebook, unless there is a checkpoint.
        continue_from: A solution to continue from. The number of updates includes its updates.

    Returns:
        The solution, with values for each seed; a sweep returns a dictionary of solutions by the
        tuples of swept values, in the order of the fields. Seeds that diverged are reported by a
        warning and by their status; if all did, that is a `Diverged` error.
    """
    if unknown:
        raise _misplaced(next(iter(unknown)))
    wanted = "a list of functions of a drogo.learn.Report"
    for part in errors.check_type("callbacks", callbacks, Sequence, wanted):
        errors.check_type("callbacks", part, Callable, wanted)
    if continue_from is not None and continue_from.learner is None:
        raise ArgumentError("an exact solution cannot be continued.", argument="continue_from")
    shown = _shown(problem, data)
    if method is None:
        method = problem.recommend(shown) if continue_from is None else continue_from.method
    assert method is not None
    if problem.kind not in method.solves:
        wrong = f"{method.name} solves {', '.join(method.solves)}; not {problem.kind}."
        raise ArgumentError(wrong, argument="method")
    if continue_from is not None:
        network = continue_from.network if network is None else network
        optimiser = continue_from.optimiser if optimiser is None else optimiser
    architecture = as_architecture(problem.network(shown, method) if network is None else network)
    architecture = problem.adapted_network(architecture, method)
    method = method.resolve(problem.recommended(shown, method, architecture))
    if optimiser is None:
        optimiser = problem.optimiser(shown, method, architecture)
    points = grid_of(problem, method, as_optimiser(optimiser))
    if len(points) > 1 and continue_from is not None:
        wrong = "a sweep continues no single solution. Continue each alone."
        raise ArgumentError(wrong, argument="continue_from")
    shared = (data, architecture, seed_list(seeds), truth or {}, continue_from)
    groups = _programs(data, problem, method, as_optimiser(optimiser))
    solutions: dict[tuple[Any, ...], Solution] = {}
    with progress_bar("fit") as show:
        for k, members in enumerate(groups):
            path = None if checkpoint is None else as_path("checkpoint", checkpoint)
            if path is not None and len(groups) > 1:  # one program cannot train all points
                path = path.with_name(f"{path.stem}-{k}{path.suffix}")
            training, progress = _assembled(list(members.values()), *shared)
            if continue_from is not None:
                progress = _continued(continue_from, progress, training)
            progress = train(training, progress, path, callbacks, show)
            if progress.interrupted:
                if k + 1 < len(groups):
                    raise KeyboardInterrupt  # there is no solution at the other points
                text = f"Ctrl-C stopped the fit after {progress.update} of {training.updates}"
                text += " updates; it returns the solution so far."
                warnings.warn(text, RuntimeWarning, stacklevel=3)
            trained = _solutions(training, progress, architecture)
            solutions |= dict(zip(members, trained, strict=True))
    if () not in points:
        return {values: solutions[values] for values in points}
    solution = solutions[()]  # nothing is swept
    pairs = zip(solution.seeds, solution.diverged_at, strict=True)
    lost = {seed: at for seed, at in pairs if at is not None}
    remedy = "Try a smaller step_size, a larger lam, or cap='auto' if the method has another one."
    all_seeds = counted(len(solution.seeds), "seed")
    if lost and len(lost) == len(solution.seeds):
        first = min(lost.values())
        raise Diverged(f"all of {all_seeds} diverged, first at update {first}.", remedy=remedy)
    if lost:
        text = f"{len(lost)} of {all_seeds} diverged ({list(lost)}) and keep their last values."
        warnings.warn(f"{text} {remedy}", RuntimeWarning, stacklevel=3)
    return solution


def recommend(data: Transitions, problem: AbstractProblem) -> AbstractMethod:
    """Returns the method that suits some transitions, with every setting resolved."""
    shown = _shown(problem, data)
    method = problem.recommend(shown)
    return method.resolve(problem.recommended(shown, method, problem.network(shown, method)))


def _shown(problem: AbstractProblem, data: Transitions) -> Transitions:
    """Returns what the problem makes of the data, at the first point of a sweep."""
    (first,) = next(iter(grid_of(problem).values()))
    return first.given(data)


def _misplaced(name: str) -> ArgumentTypeError:
    """Returns the error for an argument that `fit` does not have: perhaps a part of it has one."""
    field = errors.SYNONYMS.get(name, name)
    for kind, argument, text in [
        (AbstractProblem, "problem", "drogo.Column"),
        (Drogo, "method", "drogo.Drogo"),
        (Optimiser, "optimiser", "drogo.learn.Optimiser"),
        (MLP, "network", "drogo.learn.MLP"),
    ]:
        if field in kind.__dataclass_fields__:
            remedy = f"It belongs to the {argument}, for example {text}({field}=...)."
            return errors.unknown_argument(name, (), remedy)
    return errors.unknown_argument(name, list(inspect.signature(fit).parameters)[:-1])


def _programs(
    data: Transitions, problem: AbstractProblem, method: AbstractMethod, optimiser: Any
) -> list[dict[tuple[Any, ...], Point]]:
    """Returns the points of a sweep, by their values, in the groups that one program trains. Each
    has the data of its own problem, of which values that lie below all others are a part."""
    groups: dict[Any, dict[tuple[Any, ...], Point]] = {}
    for values, (swept, how) in grid_of(problem, method).items():
        prepared = swept.prepare(swept.given(data), how)
        adapted = swept.adapted(prepared)
        exact = adapted.exact(prepared, how)
        if exact is None and how.needs_solution:
            wrong = f"{how.name} needs states that repeat. Use Drogo()."
            raise ArgumentError(wrong, argument="method")
        for more, (last,) in grid_of(optimiser).items():
            point = Point(adapted, how, last, prepared, exact)
            settled, scales = adapted.scaled(prepared, point)
            point = point._replace(method=settled, scales=scales)
            source = adapted.trained_on(prepared, point)
            # Points with equal data are trained in one program if they have the rest in common.
            leaves = jax.tree.map(lambda leaf: None, (bare(swept), how))
            lam = None if swept.shares_batches else swept.lam
            functions = tuple(id(getattr(swept, name)) for name in swept.host_only)  # or numbers
            rest = replace(last, step_size=1.0) if hasattr(last, "name") else last
            key = (jax.tree.structure(leaves), lam, functions, rest, _digest_of(*_rows(source)))
            groups.setdefault(key, {})[values + more] = point._replace(source=source)
    return list(groups.values())


def _assembled(
    points: list[Point],
    data: Transitions,
    architecture: AbstractArchitecture,
    seeds: list[int],
    truth: Truth,
    start: Solution | None,
) -> tuple[Training, Progress]:
    """Returns everything that training some points needs, and the progress before it."""
    first, count = points[0], len(seeds)
    prepared, method, shown = first.prepared, first.method, first.prepared.shown
    objectives = [Objective(point.problem, point.method, **point.scales) for point in points]
    learned = None if start is None else start.learner
    inputs = architecture.inputs(shown.observations) if learned is None else learned.inputs
    parts = (objectives[0], architecture, first.optimiser, inputs, shown, seeds)
    learner, params = make_learner(*parts)
    plan = make_plan(shown, method.batch_size, second=learner.objective.needs_moment)
    batches = first.problem.batches(prepared, learner, seeds, first)
    if batches is None:
        batches = make_data(shown, first.source, plan, learner, seeds, method)
    stacked = jax.tree.map(
        lambda *leaves: to_device(np.repeat(np.stack(leaves), count, axis=0)), *objectives
    )
    runs = [point for point in points for _ in seeds]
    truths = _truths(truth, shown, runs)
    measured = {"prepared": prepared, "plan": plan, "points": runs, "truths": truths}
    judge = first.problem.judge(learner=learner, objectives=stacked, **measured)
    settings = [(point.problem, point.method, point.optimiser) for point in points]
    table, default = data.observations, () if data.default is None else (data.default,)
    every = max(1, len(table) // MOST_HASHED)  # a part of a long table is enough for its digest
    shown_rows = table if every == 1 else read_rows(table, np.arange(0, len(table), every))
    identity = {
        "points": [list(map(as_json, parts)) for parts in settings],
        "network": as_json(architecture),
        "seeds": seeds,
        "data": _digest_of(shown_rows, *_rows(data), *default),
        "truth": {name: _digest_of(rows) for name, rows in sorted(truths.items())},
    }
    if isinstance(first.optimiser, CustomOptimiser):
        # The computation of a user's optimiser, with its numbers, tells it from others.
        one, update = jax.tree.map(lambda leaf: leaf[0], params), learner.optimiser.update
        with jax.numpy_dtype_promotion("standard"):
            program = jax.make_jaxpr(update)(one, learner.optimiser.init(one), one)
        text = f"{program} {program.consts}".encode()
        identity["optimiser"] = hashlib.sha256(text).hexdigest()[:16]
    states = _init_runs(learner, take(params, np.tile(np.arange(count), len(points))))
    return Training(judge, batches, seeds, identity), Progress(states)


@eqx.filter_jit
def _init_runs(learner: Learner, params: Any) -> State:
    return jax.vmap(learner.init)(params)


def _truths(truth: Truth, data: Transitions, runs: list[Point]) -> dict[str, np.ndarray]:
    shape = runs[0].problem.truth_shape(data)
    truths = {}
    for name, vector in truth.items():
        if len({point.problem.lam for point in runs}) > 1 and not callable(vector):
            wrong = "in a sweep over lam, give each truth as a function of lam."
            raise ArgumentError(wrong, argument="truth")
        of_runs = [vector(point.problem.lam) if callable(vector) else vector for point in runs]
        try:
            rows = [np.asarray(row, np.float64) for row in of_runs]
        except (TypeError, ValueError) as error:
            wrong = f"truth {name!r} is no vector of numbers: {error}."
            raise ArgumentTypeError(wrong, argument="truth") from error
        others = {np.shape(row) for row in rows} - {shape}
        if others:
            wrong = f"truth {name!r} has shape {others.pop()}; expected is {shape}."
            remedy = "Of a vector over mdp.states, give vector[mdp.index_of(data.observations)]."
            raise ArgumentError(wrong, remedy=remedy, argument="truth")
        truths[name] = np.stack(rows)
    return truths


def _solutions(training: Training, progress: Progress, network: Any) -> list[Solution]:
    judge, size, prepared = training.judge, len(training.seeds), training.judge.prepared
    lost = diverged_at(progress)
    stopped = [f"Ctrl-C stopped the fit after {progress.update} updates."] * progress.interrupted
    kept, every = len(judge.plan.kept), len(prepared.shown.observations)
    part = f"The solution holds the values of {kept:,} of {every:,} observations, for which there "
    part += "was room; call it with others to evaluate them."
    partly = [part] * (kept < every)
    good = "converged" if judge.verified else "unverified"
    status = np.where(judge.converged(progress.last_row), good, "max_updates")
    status = np.where(lost >= 0, "diverged", status)
    arrays = judge.finish(progress.states.params)
    error = progress.last_row.get("error", np.full(len(judge.points), np.inf))
    solutions = []
    for begin in range(0, len(judge.points), size):
        runs, point = slice(begin, begin + size), judge.points[begin]
        history = {
            name: np.stack([row if row.ndim == 0 else row[runs] for row in rows])
            for name, rows in progress.history.items()
        }
        solutions.append(
            Solution(
                problem=point.problem,
                method=point.method,
                network=getattr(network, "given", network),
                optimiser=getattr(point.optimiser, "given", point.optimiser),
                seeds=tuple(training.seeds),
                status=tuple(status[runs].tolist()),
                error=np.asarray(error[runs], dtype=np.float64),
                diverged_at=tuple(None if at < 0 else int(at) for at in lost[runs]),
                history=history,
                arrays={name: part[runs] for name, part in arrays.items()} | judge.shared(begin),
                learner=judge.learner.with_objective(take(judge.objectives, begin)),
                state=take(progress.states, runs),
                notes=(*point.prepared.notes, *partly, *stopped),
                provenance={
                    "data": training.identity["data"],
                    "n_actions": prepared.data.n_actions,
                    "repeats": prepared.data.repeats,
                    "complete": prepared.complete,
                    "origin": dict(prepared.data.origin),
                    "versions": versions(),
                },
            )
        )
    return [one.problem.completed(one) for one in solutions]


def _continued(start: Solution, fresh: Progress, training: Training) -> Progress:
    point = training.judge.points[0]
    measures = ("cosine_", "difference_")
    compared = {name.split("_", 1)[1] for name in start.history if name.startswith(measures)}
    problems = [replace(part, costs=None) for part in (start.problem, point.problem)]
    agree = {
        "problem": (as_json(problems[0]), as_json(problems[1])),
        "seeds": (list(start.seeds), training.seeds),
        "truth": (sorted(compared), sorted(training.judge.truths)),
        "method": (start.method.name, point.method.name),
    }
    for name, (before, now) in agree.items():
        if before != now:
            raise ArgumentError(f"{name} of continue_from is {before}, here {now}.", argument=name)
    if start.updates >= training.updates:
        wrong = f"continue_from has {start.updates} updates, and the total is {training.updates}."
        remedy = "Give method=dataclasses.replace(solution.method, updates=...)."
        raise ArgumentError(wrong, remedy=remedy, argument="continue_from")
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (start.state, fresh.states)]
    if not eqx.tree_equal(*shapes):
        wrong = "continue_from has another network, optimiser or target_rate, or none of them."
        remedy = "Load it with load(path, optimiser=...)."
        raise ArgumentError(wrong, remedy=remedy, argument="continue_from")
    assert start.state is not None
    progress = Progress(start.state, history_rows(start.history))
    # Other data have another solution, which nothing has converged to yet.
    row = training.judge.row(progress.states.params, progress.last_row["loss"])
    differ = sorted(set(row) ^ (set(progress.history) - {"update"}))
    if differ:
        wrong = f"continue_from has data of another kind: {', '.join(differ)}."
        raise ArgumentError(wrong, argument="continue_from")
    for name in (measure + name for name in training.judge.truths for measure in measures):
        before, now = (of.get(name, 0.0) for of in (progress.last_row, row))
        if not np.allclose(before, now, rtol=1e-3, atol=1e-4, equal_nan=True):
            numbers = f"{name} was {np.max(before):.4g}, and is {np.max(now):.4g} with this one."
            wrong = f"the truth is not that of continue_from: {numbers}"
            raise ArgumentError(wrong, argument="truth")
    before = progress.history
    history = {name: (*rows[:-1], row.get(name, rows[-1])) for name, rows in before.items()}
    return Progress(progress.states, history)


def _rows(source: Source) -> list[np.ndarray]:
    """Returns the columns of transitions that are trained on."""
    names = ("state", "next_state", "reward", "terminated", "terminal_reward", "weight")
    columns = [getattr(source, name) for name in names]
    return columns if source.action is None else [*columns, source.action]


def _digest_of(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
