"""`drogo learn ENV`: learns the map from transitions, compares it with the truth, and draws it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli import output
from drogo.errors import ArgumentError, Diverged, check_whole, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

FILES = {"picture": "picture.png", "solution": "solution.npz"}
CHECKPOINT = "checkpoint.npz"
CERTIFIED, SECONDS_OF_CERTIFICATE = 20, 120.0
BYTES_OF_TRANSITION = 34
"""Two states, a reward, a terminal reward and two flags; observations are not counted."""
BY_DATA = output.hint("(default: one that suits the data)")
CLASSES = ("Drogo", "Regression", "Paper", "GDO", "LogGDO", "NaturalGDO")
Report = dict[str, Any]
METHODS = {name.lower(): name for name in CLASSES}


@dataclass(frozen=True)
class Learn:
    """Learn the map from transitions, compare it with the truth, and draw it."""

    env: output.Env
    observation: Annotated[
        Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None,
        output.hint("(default: coordinates; pixels in MiniGrid)"),
    ] = None
    """Observations of the network: any but symbolic in a grid world, where state is the tabular
    case; pixels or symbolic in MiniGrid."""
    problem: Annotated[
        Literal["column", "soft", "continuing"] | None,
        output.hint("(default: column; soft where actions have several outcomes)"),
    ] = None
    """column: the map to the terminal states. soft: the same for worlds with random outcomes, in
    which it takes no risks. continuing: the map of a task that never ends, such as Pendulum; where
    episodes end, the last step leads to the first state of the next."""
    method: Literal["drogo", "regression", "paper", "gdo", "log-gdo", "natural-gdo"] = "drogo"
    """drogo: the paper's objective, with settings that suit the data. regression: solve the data
    exactly and fit the network to the solution, where states repeat. paper: exactly the paper's
    settings. The others are the paper's alternatives."""
    lam: Annotated[
        float | None,
        output.hint("(default: 20; less where a worse end would attract; for soft by the costs)"),
    ] = None
    """Temperature lambda. A smaller value makes the map more sensitive to rewards."""
    network: Annotated[
        Literal["mlp", "cnn", "table"] | None,
        output.hint("(default: by the shape of the observations)"),
    ] = None
    """Architecture of the network."""
    seeds: int = 3
    """Number of networks, which are trained at once."""
    updates: Annotated[output.Whole | None, BY_DATA] = None
    """Number of updates."""
    batch_size: Annotated[output.Whole | None, BY_DATA] = None
    """Number of transitions in a batch."""
    step_size: Annotated[float | None, BY_DATA] = None
    """Step size of the optimiser, before its schedule."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="")] = ()
    """Other settings of the method, network or optimiser, such as action_values=true cap=3
    width=256."""
    transitions: output.Whole = 200_000
    """Number of transitions to collect."""
    data_seed: int = 0
    """Seed of the transitions."""
    reward: output.Reward = None
    terminal_reward: output.TerminalReward = None
    key: output.Key = ()
    layout: output.Layout = None
    actions: output.Actions = ()
    tile: output.Tile = None
    certify: Annotated[int | None, output.hint("(default: 20; 0 where states repeat)")] = None
    """Number of states from which rollouts check the learned values."""
    log: Annotated[Literal["tensorboard", "wandb"] | None, output.hint()] = None
    """Logger of the learning curves, besides the result."""
    out: output.Out = Path("results/learn")
    overwrite: output.Overwrite = False
    json: output.Json = False

    def run(self) -> None:
        from drogo.worlds.resolve import resolve

        console = output.terminal(quiet=self.json)
        names = ("observation", "reward", "terminal_reward", "key", "layout", "actions", "tile")
        world = resolve(self.env, **{name: getattr(self, name) for name in names})
        result, train = prepare(self, world, console)
        if (result.path / CHECKPOINT).exists() and not self.overwrite:
            console.print("An interrupted run is continued; --overwrite starts again.")
        output.print_result(self, console, result, train)


def prepare(options: Learn, world: World, console: Console) -> tuple[ResultDirectory, output.Make]:
    """Returns the directory of a fit, and the function that trains it and returns its report."""
    lam = "lam-auto" if options.lam is None else f"lam{options.lam:g}"
    parts = [world.name, world.view, options.problem, options.method, lam]
    label = "-".join(filter(None, [*parts, f"{options.seeds}seeds"]))
    result = output.result_directory(options, world, label, view=world.view)
    return result, partial(_train, options, world, result, console)


def _train(options: Learn, world: World, result: ResultDirectory, console: Console) -> Report:
    from drogo.cli import pictures
    from drogo.files import check_memory
    from drogo.learn.judge import depth_of

    checkpoint = result.path / CHECKPOINT
    if options.certify is not None:
        check_whole("--certify", options.certify, 0)
    least = options.transitions * BYTES_OF_TRANSITION
    check_memory(f"--transitions {options.transitions}", least, "Give a smaller number.")
    values, method, network = _settings(options)  # a bad value is an error before any work
    loggers = []
    if options.log == "tensorboard":
        loggers = [drogo.learn.TensorBoard(result.path / "tensorboard")]
    elif options.log == "wandb":
        loggers = [drogo.learn.WandB(project="drogo", name=result.path.name)]
    data = collected(options, world, console)
    problem, costs = _problem(options, data)
    states = data.observations, data.terminal_states
    is_known = problem.kind == "column"
    truth = world.truth(*states, float(problem.lam), costs) if is_known else {}
    parts = _parts(values, data, problem, method, network)
    with result.begin(overwrite=options.overwrite):
        if options.overwrite:
            checkpoint.unlink(missing_ok=True)
        fit = partial(drogo.fit, data, problem, seeds=options.seeds, truth=truth, **parts)
        try:
            solution = fit(checkpoint=checkpoint, callbacks=loggers)
        except KeyboardInterrupt:
            if checkpoint.exists():
                console.print("The run is kept. The same command continues from here.")
            raise
        except Diverged:
            checkpoint.unlink(missing_ok=True)  # resumed, it would diverge again
            raise
        solution.save(result.path / FILES["solution"], overwrite=True)
        report = _report(options, solution)
        space = world.env.observation_space
        if not space.shape and not options.key and data.observations.ndim == 2:
            size = data.observations.shape[1]
            report["warnings"].append(f"{space} is joined to {counted(size, 'number')}.")
        title = f"{report['problem']}, {report['method']}, {report['network']}, "
        title += f"lambda = {problem.lam:g}"
        figures = {"picture": pictures.learned(world, solution, truth, title)}
        starts = 0 if data.repeats or not is_known else CERTIFIED
        starts = starts if options.certify is None else options.certify
        if starts:
            figures |= _certify(report, solution, world, starts)
        column = truth.get("column") if solution.method.anchored else None
        depth = None if column is None else depth_of(column, data.state)
        report["verdict"] = _verdict(report["seeds"], problem.tolerance, depth)
        report["table"] = _table(report)
        pngs = {kind: drogo.plot.as_png(figure) for kind, figure in figures.items()}
        report = result.finish(report, **pngs)
        checkpoint.unlink(missing_ok=True)
    return report


def _problem(options: Learn, data: drogo.Transitions) -> tuple[Any, Any]:
    """Returns the problem that was asked for, or that suits the data, and the costs of the data."""
    from drogo.data.empirical import chance

    problem = getattr(drogo, (options.problem or "column").capitalize())()
    seen = problem.weighed(data, by_action=True)
    outcomes = chance(seen.data)  # of costs: what an end pays may fall with time
    if options.problem is None and options.method != "paper":
        problem = drogo.Soft() if outcomes.several and not outcomes.hidden else problem
    if options.lam is not None:
        return replace(problem, lam=options.lam), seen.costs
    return problem if options.problem == "continuing" else problem.suited(seen), seen.costs


def _settings(options: Learn) -> tuple[dict[str, Any], drogo.learn.AbstractMethod, Any]:
    """Returns the given settings by name, the method, and the network if one is given."""
    from drogo.learn import CNN, MLP, Optimiser, Table
    from drogo.learn.settings import from_keywords

    values: dict[str, Any] = {}
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise ArgumentError(f"--set {text}: write it as NAME=VALUE.", argument="set")
        try:
            parsed = float("inf") if value == "inf" else json.loads(value)
        except json.JSONDecodeError:
            parsed = value
        values[name.replace("-", "_")] = parsed
    common = {name: getattr(options, name) for name in ("updates", "batch_size", "step_size")}
    values |= {name: value for name, value in common.items() if value is not None}
    kind = getattr(drogo, METHODS[options.method.replace("-", "")])
    method = from_keywords(values, kind, MLP, CNN, Optimiser)[0]
    network = {"mlp": MLP, "cnn": CNN, "table": Table}.get(options.network or "", lambda: None)()
    if network is not None:
        _check_effect(values, method, network, Optimiser())
    return values, method, network


def _check_effect(values: dict[str, Any], method: Any, network: Any, optimiser: Any) -> None:
    """Raises an error if a given setting is a field of no part of the fit."""
    for name in values:
        if not any(hasattr(part, name) for part in (method, network, optimiser)):
            problem = f"--set {name}={values[name]} has no effect on a {type(network).__name__}."
            remedy = "Leave it out, or choose another --network."
            raise ArgumentError(problem, remedy=remedy, argument="set")


def _parts(values: Report, data: Any, problem: Any, method: Any, network: Any) -> dict[str, Any]:
    """Returns the method, network and optimiser of a fit, with the given settings."""

    def with_values(part: Any) -> Any:
        names = {field.name for field in fields(part)}
        return replace(part, **{name: values[name] for name in values if name in names})

    network = with_values(network or problem.network(data, method))
    method = method.resolve(problem.recommended(data, method, network))
    optimiser = with_values(problem.optimiser(data, method, network))
    _check_effect(values, method, network, optimiser)
    return {"method": method, "network": network, "optimiser": optimiser}


def collected(options: Learn, world: World, console: Console) -> drogo.Transitions:
    """Collects the transitions of a fit."""
    n, seed = options.transitions, options.data_seed
    sampling = dict(world.sampling)
    with console.status(f"collecting {n} transitions"):
        if options.problem != "continuing":
            return drogo.collect(world.env, n, seed=seed, **sampling)
        start = sampling["start"] if callable(sampling["start"]) else "reset"
        sampling |= {"start": start, "reward": options.reward}
        return drogo.collect(drogo.NeverEnding(world.env), n, seed=seed, **sampling)


def _report(options: Learn, solution: drogo.Solution) -> dict[str, Any]:
    from drogo.learn.settings import as_json

    last = {name: rows[-1] for name, rows in solution.history.items() if name != "update"}
    parts = ("problem", "method", "network", "optimiser")
    return {
        "env": options.env,
        "method": solution.method.name,
        "problem": type(solution.problem).__name__,
        "lam": solution.problem.lam,
        "network": type(solution.network).__name__,
        "settings": {name: as_json(getattr(solution, name)) for name in parts},
        "updates": solution.updates,
        "observations": len(solution.observations),
        "seeds": [
            {"seed": seed, "status": solution.status[k], "diverged_at": solution.diverged_at[k]}
            | {name: output.number(values[k]) for name, values in last.items()}
            | ({"gain": float(solution.gain[k])} if "gain" in solution.arrays else {})
            for k, seed in enumerate(solution.seeds)
        ],
        "files": FILES,
        "warnings": [*solution.notes, *solution.diagnosis()],
    }


def _certify(
    report: Report, solution: drogo.Solution, world: World, starts: int
) -> dict[str, Figure]:
    """Adds a certificate to a report, if rollouts can start, and returns its figure."""
    from drogo.data.simulate import StepsMany

    sampling = dict(world.sampling)
    if isinstance(world.env.unwrapped, StepsMany) or not callable(sampling["start"]):
        del sampling["start"]  # the simulator samples first states itself
    try:
        effort = drogo.learn.Effort(seconds=SECONDS_OF_CERTIFICATE)
        certificate = drogo.certify(solution, world.env, starts=starts, effort=effort, **sampling)
    except Exception as error:  # also one of the environment: the fit must not be lost
        reason = str(error) or type(error).__name__
        report["warnings"].append(f"The values were not checked by rollouts: {reason}")
        return {}
    for seed, status in zip(report["seeds"], certificate.status, strict=True):
        seed["certificate"] = status
    report["warnings"] += certificate.lines()
    report["files"] = {**report["files"], "certificate": "certificate.png"}
    return {"certificate": drogo.plot.certificate(certificate, title=f"{world.name}: rollouts")}


def _verdict(seeds: list[dict[str, Any]], tolerance: float, depth: float | None) -> str:
    """Returns one sentence that says whether the map is good, and why, by the depth of the exact
    column if that is known."""
    from drogo.learn.judge import allowed

    def count(name: str, value: str) -> int:
        return sum(seed.get(name) == value for seed in seeds)

    def largest(name: str) -> float:
        each = [seed[name] for seed in seeds if name in seed]
        return float("inf") if None in each else max(each, default=0.0)

    total = f"of {counted(len(seeds), 'seed')}"
    difference = largest("difference_column")
    if diverged := count("status", "diverged"):
        return f"Not good: {diverged} {total} diverged."
    if late := count("status", "max_updates"):
        name, key = ("error", "error") if "error" in seeds[0] else ("residual", "worst")
        remark = f"the largest {name} is {largest(key):.2g}"
        return f"Not good: {late} {total} did not converge in time; {remark}."
    if refuted := count("certificate", "refuted"):
        return f"Not good: rollouts refute the values of {refuted} {total}."
    if depth is not None and difference > allowed(tolerance, depth):
        problem = f"v differs by {difference:.2g} from the exact column"
        return f"Not good: {problem}; more transitions may help."
    if count("certificate", "certified") == len(seeds):
        return f"Good: rollouts confirm the values {total}."
    within = f"within {largest('error'):.2g} of the solution of the data"
    if count("status", "converged") == len(seeds):
        return f"Good: all seeds converged, to {within}."
    if "error" in seeds[0] and math.isfinite(largest("error")):
        return f"Not known to be good: values are {within}, which lack some actions or values."
    return "Not known to be good: no equation is violated, but nothing confirms the values."


COLUMNS = {
    "column": "cosine_column",
    "difference": "difference_column",
    "repr.": "cosine_representation",
    "transition": "cosine_transition",
    "error": "error",
    "worst": "worst",
    "gain": "gain",
}
DEFINITIONS = {
    "difference": "largest difference to the log of the exact column",
    "error": "largest difference to the exact solution of the data",
    "worst": "largest residual of the equation of a state, or of groups of held-out transitions "
    "where states do not repeat",
    "gain": "the reward of a step, less what it costs to depart from the default policy",
}


def _table(report: dict[str, Any]) -> dict[str, Any]:
    def cell(name: str, value: float | None) -> str:
        return "-" if value is None else f"{value:{'.5f' if name.startswith('cosine') else '.2g'}}"

    rows = []
    for seed in report["seeds"]:
        row = {title: cell(name, seed[name]) for title, name in COLUMNS.items() if name in seed}
        rows.append({"seed": str(seed["seed"]), **row, "status": seed["status"]})
        if "certificate" in seed:
            rows[-1]["by rollouts"] = seed["certificate"]
    cosines = [title for title, name in COLUMNS.items() if title in rows[0] and "cosine" in name]
    lines = [f"{', '.join(cosines)}: cosine with each exact vector; 1 is best"] if cosines else []
    lines += [f"{title}: {text}" for title, text in DEFINITIONS.items() if title in rows[0]]
    lines += [] if cosines else ["No exact vector is known."]
    title = "{env}: {method}, {network}, lambda = {lam:g}, {updates} updates".format(**report)
    return output.table(title, "\n".join(lines), rows, left=("status", "by rollouts"))
