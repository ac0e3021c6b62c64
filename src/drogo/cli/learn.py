"""`drogo learn ENV`: learns the map from transitions, compares it with the truth, and draws it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli.output import (
    NEW,
    number,
    obtain_report,
    print_report,
    progress_bar,
    result_directory,
    table,
    terminal,
)
from drogo.errors import AlreadyExists, ArgumentError, Diverged

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

FILES = {"picture": "picture.png", "solution": "solution.npz"}
CHECKPOINT = "checkpoint.npz"
CERTIFIED = 20
"""Number of states from which rollouts start."""
BYTES_OF_TRANSITION = 34
"""Two states, a reward, a terminal reward and two flags; observations are not counted."""


def _whole(arguments: list[str]) -> int:
    """Returns a whole number, which may be written like 2e5."""
    try:
        return int(arguments[0])
    except ValueError:
        value = float(arguments[0])
        if not value.is_integer():
            raise ValueError(f"{arguments[0]} is not a whole number") from None
        return int(value)


Whole = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=_whole,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]


BY_DATA = tyro.conf.arg(help_behavior_hint="(default: one that suits the data)")
METHODS = {
    "drogo": "Drogo",
    "regression": "Regression",
    "paper": "Paper",
    "gdo": "GDO",
    "log-gdo": "LogGDO",
    "natural-gdo": "NaturalGDO",
}


@dataclass(frozen=True)
class Learn:
    """Learn the map from transitions, compare it with the truth, and draw it."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    observation: Annotated[
        Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None,
        tyro.conf.arg(help_behavior_hint="(default: coordinates; pixels in MiniGrid)"),
    ] = None
    """Observations of the network: any but symbolic in a grid world, where state is the tabular
    case; pixels or symbolic in MiniGrid."""
    method: Literal["drogo", "regression", "paper", "gdo", "log-gdo", "natural-gdo"] = "drogo"
    """drogo: the paper's objective, with settings that suit the data. regression: solve the data
    exactly and fit the network to the solution, where states repeat. paper: exactly the paper's
    settings. The others are the paper's alternatives."""
    lam: float = 20.0
    """Temperature lambda. A smaller value makes the map more sensitive to rewards."""
    network: Annotated[
        Literal["mlp", "cnn", "table"] | None,
        tyro.conf.arg(help_behavior_hint="(default: by the shape of the observations)"),
    ] = None
    """Architecture of the network."""
    seeds: int = 3
    """Number of networks, which are trained at once."""
    updates: Annotated[Whole | None, BY_DATA] = None
    """Number of updates."""
    batch_size: Annotated[Whole | None, BY_DATA] = None
    """Number of transitions in a batch."""
    step_size: Annotated[float | None, BY_DATA] = None
    """Step size of the optimiser, before its schedule."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE", help_behavior_hint="")] = ()
    """Other settings of the method, network or optimiser, such as action_values=true cap=3
    width=256."""
    transitions: Whole = 200_000
    """Number of transitions to collect."""
    data_seed: int = 0
    """Seed of the transitions."""
    reward: float | None = None
    """Reward of every step in place of a Gymnasium environment's, for example -1. Terminal states
    then have the value 0."""
    key: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Parts of a Dict observation to learn from. Several parts are joined, in this order."""
    layout: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 0)")] = None
    """Seed of a MiniGrid environment's grid."""
    tile: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 3)")] = None
    """Pixels per cell of a MiniGrid environment."""
    certify: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: 20; 0 where states repeat)")
    ] = None
    """Number of states from which rollouts check the learned values."""
    log: Literal["tensorboard", "wandb"] | None = None
    """Logger of the learning curves, besides the result."""
    out: Path = Path("results/learn")
    """Directory of all results; each result has its own directory in it."""
    resume: bool = False
    """Continue an interrupted run."""
    overwrite: bool = False
    """Train again even if there is a result or an interrupted run."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from drogo.worlds.resolve import resolve

        console = terminal(quiet=self.json)
        world = resolve(
            self.env,
            observation=self.observation,
            reward=self.reward,
            key=self.key,
            layout=self.layout,
            tile=self.tile,
        )
        result, report, note = obtain(self, world, console)
        print_report(console, report, result.path, note, as_json=self.json)


def obtain(
    options: Learn, world: World, console: Console
) -> tuple[ResultDirectory, dict[str, Any], str]:
    """Returns a fit, which is trained unless it exists.

    Args:
        options: The options of the verb.
        world: The world that `options.env` stands for.
        console: The console that shows progress.

    Returns:
        The directory of the fit, its report, and a note on whether it is new.
    """
    parts = [world.name, world.view, options.method, f"lam{options.lam:g}"]
    label = "-".join(filter(None, [*parts, f"{options.seeds}seeds"]))
    result = result_directory(options, world, label, view=world.view)
    resumable = not options.overwrite and (result.path / CHECKPOINT).exists()
    train = partial(_train, options, world, result, console)
    report, note = obtain_report(options, result, train)
    if note == NEW and options.resume and not resumable:
        note = f"{note} (there was nothing to resume)"
    return result, report, note


def _train(
    options: Learn, world: World, result: ResultDirectory, console: Console
) -> dict[str, Any]:
    from drogo.cli import pictures
    from drogo.files import check_memory

    checkpoint = result.path / CHECKPOINT
    if checkpoint.exists() and not (options.resume or options.overwrite):
        raise AlreadyExists(
            f"{result.path} holds an interrupted run. Continue it with --resume, or start again "
            "with --overwrite."
        )
    if options.certify is not None and options.certify < 0:
        raise ArgumentError(
            f"--certify is {options.certify}; give a number of states, or 0.", argument="certify"
        )
    least = options.transitions * BYTES_OF_TRANSITION
    check_memory(f"--transitions {options.transitions}", least, "Give a smaller number.")
    problem, method, rest = _chosen(options)  # a bad value is an error before any work
    loggers = _loggers(options.log, result.path)
    data = collected(options, world, console)
    truth = pictures.truth(world, data, options.lam)
    with result.begin(overwrite=options.overwrite):
        if options.overwrite:
            checkpoint.unlink(missing_ok=True)
        rest = rest(data, method, problem)
        fit = partial(drogo.fit, data, problem, method, seeds=options.seeds, truth=truth, **rest)
        solution = _fit(fit, checkpoint, loggers, console)
        solution.save(result.path / FILES["solution"], overwrite=True)
        report = _report(options, solution)
        title = f"{report['method']}, {report['network']}, lambda = {options.lam:g}"
        figures = {"picture": pictures.learned(world, solution, truth, title)}
        starts = (0 if data.repeats else CERTIFIED) if options.certify is None else options.certify
        if starts:
            with console.status(f"checking the values by rollouts from {starts} states"):
                figures |= _certify(report, solution, world, starts)
        pngs = {kind: drogo.plot.as_png(figure) for kind, figure in figures.items()}
        report = result.finish({**report, "table": _table(report)}, **pngs)
        checkpoint.unlink(missing_ok=True)
    return report


def _chosen(options: Learn) -> tuple[Any, Any, Callable[..., dict[str, Any]]]:
    """Returns the problem, the method, and a function from data, the method and the problem to the
    network and optimiser, as the options say."""
    from drogo.learn import CNN, MLP, Optimiser, Table, problem as problems

    values = dict(map(_setting, options.set))
    common = ("updates", "batch_size", "step_size")
    given = {name: getattr(options, name) for name in common}
    values |= {name: value for name, value in given.items() if value is not None}
    kind = getattr(drogo, METHODS[options.method])
    networks = {"mlp": MLP, "cnn": CNN, "table": Table}

    def taken(part: Any) -> dict[str, Any]:
        names = {field.name for field in fields(part)}
        return {name: value for name, value in values.items() if name in names}

    known = [*fields(kind), *(f for part in (MLP, CNN, Optimiser) for f in fields(part))]
    names = list(dict.fromkeys(field.name for field in known))
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ArgumentError(
                f"--set {name}: {options.method} has no such setting.{hint} The settings are "
                f"{', '.join(names)}.",
                argument="set",
            )
    problem, method = drogo.Column(lam=options.lam), kind(**taken(kind))
    Optimiser(**taken(Optimiser))

    def rest(data: Any, method: Any, problem: problems.AbstractProblem) -> dict[str, Any]:
        network = networks.get(options.network or "", lambda: problem.network(data, method))()
        network = replace(network, **taken(network))
        method = method.resolve(problem.recommended(data, method, network))
        optimiser = replace(problem.optimiser(data, method, network), **taken(Optimiser))
        return {"network": network, "optimiser": optimiser}

    return problem, method, rest


def _setting(text: str) -> tuple[str, Any]:
    """Returns the name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"--set {text}: write it as NAME=VALUE.", argument="set")
    try:
        parsed = float("inf") if value == "inf" else json.loads(value)
    except json.JSONDecodeError:
        parsed = value
    return name.replace("-", "_"), parsed


def collected(options: Learn, world: World, console: Console) -> drogo.Transitions:
    """Collects the transitions of a fit in the world that `options.env` stands for."""
    with console.status(f"collecting {options.transitions} transitions"):
        return drogo.collect(
            world.env, options.transitions, seed=options.data_seed, **world.sampling
        )


def _fit(
    fit: Callable[..., drogo.Solution],
    checkpoint: Path,
    loggers: list[Callable[[Any], Any]],
    console: Console,
) -> drogo.Solution:
    """Calls `fit` and shows its progress. An interrupted fit leaves a checkpoint."""
    try:
        with progress_bar(console, "learning") as update:

            def show(event: drogo.learn.Report) -> None:
                remark = f"largest residual {event.row['worst'].max():.2g}"
                if "error" in event.row:
                    remark = f"largest error {event.row['error'].max():.2g}"
                if "cosine_column" in event.row:
                    remark = f"smallest cosine {event.row['cosine_column'].min():.4f}"
                update(event.update, event.updates, remark)

            return fit(checkpoint=checkpoint, callbacks=[show, *loggers])
    except KeyboardInterrupt:
        if checkpoint.exists():
            console.print(
                f"The run is kept in {checkpoint}; the same command with --resume continues it.",
                soft_wrap=True,
            )
        raise
    except Diverged:
        checkpoint.unlink(missing_ok=True)  # resumed, it would diverge again
        raise


def _loggers(log: str | None, directory: Path) -> list[Callable[[Any], Any]]:
    if log is None:
        return []
    from drogo.learn import callbacks

    if log == "tensorboard":
        return [callbacks.TensorBoard(directory / "tensorboard")]
    return [callbacks.WandB(project="drogo", name=directory.name)]


def _report(options: Learn, solution: drogo.Solution) -> dict[str, Any]:
    from drogo.learn.settings import as_json

    last = {name: rows[-1] for name, rows in solution.history.items() if name != "update"}
    each = zip(solution.seeds, solution.status, solution.diverged_at, strict=True)
    parts = ("problem", "method", "network", "optimiser")
    return {
        "env": options.env,
        "method": solution.method.name,
        "network": type(solution.network).__name__,
        "settings": {name: as_json(getattr(solution, name)) for name in parts},
        "updates": solution.updates,
        "observations": len(solution.observations),
        "seeds": [
            {
                "seed": seed,
                "status": status,
                "diverged_at": diverged_at,
                **{name: number(values[k]) for name, values in last.items()},
            }
            for k, (seed, status, diverged_at) in enumerate(each)
        ],
        "files": FILES,
        "warnings": [*solution.notes, *solution.diagnosis()],
    }


def _certify(
    report: dict[str, Any], solution: drogo.Solution, world: World, starts: int
) -> dict[str, Figure]:
    """Adds a certificate to a report if rollouts can start from the environment's states, and
    returns its figure."""
    from drogo.data.simulate import StepsMany

    sampling = dict(world.sampling)
    if isinstance(world.env.unwrapped, StepsMany) or not callable(sampling["start"]):
        del sampling["start"]  # the simulator samples first states itself
    try:
        certificate = drogo.certify(solution, world.env, starts=starts, **sampling)
    except Exception as error:  # also one of the environment: the fit must not be lost
        report["warnings"].append(f"The values were not checked by rollouts: {error}")
        return {}
    for seed, status, line in zip(
        report["seeds"], certificate.status, certificate.lines(), strict=True
    ):
        seed["certificate"] = status
        report["warnings"].append(line)
    report["files"] = {**report["files"], "certificate": "certificate.png"}
    return {"certificate": drogo.plot.certificate(certificate, title=f"{world.name}: rollouts")}


COLUMNS = {
    "column": "cosine_column",
    "difference": "difference_column",
    "represent.": "cosine_representation",
    "transition": "cosine_transition",
    "error": "error",
    "worst": "worst",
}


def _table(report: dict[str, Any]) -> dict[str, Any]:
    seeds = report["seeds"]
    caption = "no exact vector is known; "
    if "cosine_column" in seeds[0]:
        caption = "cosine with each exact vector; difference: largest difference to the log of the "
        caption += "exact column; "
    if "error" in seeds[0]:
        caption += "error: largest difference to the exact solution of the data; "
    caption += "worst: largest residual of any state's equation, or of groups of held-out "
    caption += "transitions where states do not repeat"
    rows = []
    for seed in seeds:
        row = {"seed": str(seed["seed"])}
        for title, name in COLUMNS.items():
            if name in seed:
                row[title] = "-" if seed[name] is None else f"{seed[name]:.5f}"
        row["status"] = seed["status"]
        if "certificate" in seed:
            row["by rollouts"] = seed["certificate"]
        rows.append(row)
    title = f"{report['env']}: {report['method']}, {report['network']}, "
    title += f"{report['updates']} updates"
    return table(title, caption, rows, left=("status", "by rollouts"))
