"""`drogo learn ENV`: learn the vector from transitions, compare it with the truth, draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli.output import number, print_report, progress_bar, table, terminal
from drogo.cli.settings import Settings, Whole
from drogo.config import Config
from drogo.errors import AlreadyExists, ArgumentError, Diverged

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

FILES = {"picture": "picture.png", "fit": "fit.npz"}
CHECKPOINT = "checkpoint.npz"
CERTIFIED = 20
"""Rollouts start from so many states."""
BYTES_OF_TRANSITION = 34
"""Two states, a reward, a terminal value and two flags; observations are not counted."""


@dataclass(frozen=True)
class Learn:
    """Learn the vector from transitions, compare it with the truth, draw it."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    observation: Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None = None
    """What the network observes. A grid world: coordinates unless given; state is the tabular case.
    A MiniGrid environment: pixels unless given, or symbolic."""
    preset: Literal["auto", "direct", "stable", "fast", "paper"] = "auto"
    """direct: solve the data exactly and fit the network to the solution, where states repeat.
    stable: for all other worlds. auto: the one of these that suits the data. fast: the paper's
    method in small worlds, sped up. paper: exactly the paper's settings."""
    seeds: int = 3
    """Number of networks, which are trained at once."""
    settings: Annotated[Settings, tyro.conf.OmitArgPrefixes] = field(default_factory=dict)
    """Settings of the fit, on top of the preset."""
    transitions: Whole = 200_000
    """Number of transitions to collect."""
    data_seed: int = 0
    """Seed of the transitions."""
    reward: float | None = None
    """Cost of every step in place of a Gymnasium environment's own reward, for example -1. Terminal
    states then have the value 0."""
    key: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Which part of a Dict observation to learn from. Several parts are joined, in this order."""
    layout: int | None = None
    """Seed of a MiniGrid environment's grid, 0 unless given."""
    tile: int | None = None
    """Pixels per cell of a MiniGrid environment, 3 unless given."""
    certify: int | None = None
    """Number of states from which rollouts check the learned values; 20 unless given where states
    do not repeat, and 0 elsewhere."""
    log: Literal["tensorboard", "wandb"] | None = None
    """Where the learning curves are logged, besides in the result."""
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
    """Trains a fit unless it is already there.

    Args:
        options: How to train it.
        world: What `options.env` stands for.
        console: Where progress is shown.

    Returns:
        The directory of the fit, its report, and whether it is new.
    """
    from drogo.cli import results

    settings = {"lam": Config.lam, "objective": Config.objective, **options.settings}
    replace(Config(), **settings)  # a value that cannot be used is an error before anything is done
    parts = [world.name, world.view, options.preset, settings["objective"]]
    parts += [f"lam{settings['lam']:g}", f"{options.seeds}seeds"]
    label = "-".join(filter(None, parts))
    result = results.directory(options, world, label, view=world.view, settings=settings)
    resumable = not options.overwrite and (result.path / CHECKPOINT).exists()
    train = partial(_train, options, world, result, console)
    report, note = results.obtain(options, result, train)
    if note == results.WRITTEN and options.resume and not resumable:
        note = f"{note} (there was nothing to resume)"
    return result, report, note


def _train(
    options: Learn, world: World, result: ResultDirectory, console: Console
) -> dict[str, Any]:
    from drogo.cli import pictures
    from drogo.files import check_memory

    checkpoint, settings = result.path / CHECKPOINT, result.request["settings"]
    if checkpoint.exists() and not (options.resume or options.overwrite):
        raise AlreadyExists(
            f"{result.path} holds an interrupted run. Continue it with --resume, or start again "
            "with --overwrite."
        )
    if options.certify is not None and options.certify < 0:
        raise ArgumentError(f"--certify is {options.certify}; give a number of states, or 0.")
    least = options.transitions * BYTES_OF_TRANSITION
    check_memory(f"--transitions {options.transitions}", least, "Give a smaller number.")
    loggers = _loggers(options.log, result.path)  # a missing package is an error before any work
    data = collected(options, world, console)
    truth = pictures.truth(world, data, settings["lam"])
    with result.begin(overwrite=options.overwrite):
        if options.overwrite:
            checkpoint.unlink(missing_ok=True)
        how = {"preset": options.preset, "seeds": options.seeds, "truth": truth, **settings}
        fitted = _fit(partial(drogo.fit, data, **how), checkpoint, loggers, console)
        fitted.save(result.path / FILES["fit"], overwrite=True)
        title = f"{settings['objective']}, {options.preset}, {fitted.network}, lambda = "
        title += f"{settings['lam']:g}"
        made = {"picture": pictures.learned(world, fitted, truth, title)}
        report = _report(options, fitted)
        starts = (0 if data.repeats else CERTIFIED) if options.certify is None else options.certify
        if starts:
            with console.status(f"checking the values by rollouts from {starts} states"):
                made |= _certify(report, fitted, world, starts)
        drawn = {kind: drogo.plot.as_png(figure) for kind, figure in made.items()}
        report = result.finish({**report, "table": _table(report)}, **drawn)
        checkpoint.unlink(missing_ok=True)
    return report


def collected(options: Learn, world: World, console: Console) -> drogo.Transitions:
    """Collects the transitions that a fit learns from.

    Args:
        options: How many, and from which seed.
        world: What `options.env` stands for.
        console: Where it is said.
    """
    with console.status(f"collecting {options.transitions} transitions"):
        return drogo.collect(
            world.env, options.transitions, seed=options.data_seed, **world.sampling
        )


def _fit(
    fit: Callable[..., drogo.LogEigenvector],
    checkpoint: Path,
    loggers: list[Callable[[Any], Any]],
    console: Console,
) -> drogo.LogEigenvector:
    """Calls `fit` and shows its progress. What it leaves when it is interrupted can be resumed."""
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
        checkpoint.unlink(missing_ok=True)  # to resume it would only diverge again
        raise


def _loggers(log: str | None, directory: Path) -> list[Callable[[Any], Any]]:
    if log is None:
        return []
    from drogo.learn import callbacks

    if log == "tensorboard":
        return [callbacks.TensorBoard(directory / "tensorboard")]
    return [callbacks.WandB(project="drogo", name=directory.name)]


def _report(options: Learn, fitted: drogo.LogEigenvector) -> dict[str, Any]:
    last = {name: rows[-1] for name, rows in fitted.history.items() if name != "update"}
    each = zip(fitted.seeds, fitted.status, fitted.diverged_at, strict=True)
    return {
        "env": options.env,
        "preset": options.preset,
        "updates": fitted.updates,
        "observations": len(fitted.observations),
        "network": fitted.network,
        "config": asdict(fitted.config),
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
        "warnings": [*fitted.notes, *fitted.diagnosis()],
    }


def _certify(
    report: dict[str, Any], fitted: drogo.LogEigenvector, world: World, starts: int
) -> dict[str, Figure]:
    """Adds a certificate to a report, if the environment's states can be tried out.

    Returns:
        Its picture, if there is one.
    """
    from drogo.data.simulate import StepsMany

    sampling = dict(world.sampling)
    if isinstance(world.env.unwrapped, StepsMany) or not callable(sampling["start"]):
        del sampling["start"]  # the simulator draws its own first states
    try:
        made = drogo.certify(fitted, world.env, starts=starts, **sampling)
    except Exception as error:  # also of the environment: the fit must not be lost by it
        report["warnings"].append(f"The values were not checked by rollouts: {error}")
        return {}
    for seed, status, line in zip(report["seeds"], made.status, made.lines(), strict=True):
        seed["certificate"] = status
        report["warnings"].append(line)
    report["files"] = {**report["files"], "certificate": "certificate.png"}
    return {"certificate": drogo.plot.certificate(made, title=f"{world.name}: rollouts")}


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
    title = f"{report['env']}: {report['config']['objective']}, {report['preset']}, "
    title += f"{report['network']}, {report['updates']} updates"
    return table(title, caption, rows, left=("status", "by rollouts"))
