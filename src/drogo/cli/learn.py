"""`drogo learn ENV`: learn the vector from transitions, compare it with the truth, draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli.output import number, print_report, progress_bar, table, terminal
from drogo.cli.settings import Settings
from drogo.config import Config
from drogo.errors import AlreadyExists, Diverged

if TYPE_CHECKING:
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

FILES = {"picture": "picture.png", "fit": "fit.npz"}
CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True)
class Learn:
    """Learn the vector from transitions, compare it with the truth, draw it."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    observation: Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None = None
    """What the network observes. A grid world: coordinates unless given; state is the tabular case.
    A MiniGrid environment: pixels unless given, or symbolic."""
    preset: Literal["auto", "fast", "stable", "paper"] = "auto"
    """fast: for small worlds whose states repeat. stable: for all others. auto: the one of these
    that suits the data. paper: exactly the paper's settings."""
    seeds: int = 3
    """Number of networks, which are trained at once."""
    settings: Annotated[Settings, tyro.conf.OmitArgPrefixes] = field(default_factory=dict)
    """Settings of the fit, on top of the preset."""
    transitions: int = 200_000
    """Number of transitions to collect."""
    data_seed: int = 0
    """Seed of the transitions."""
    reward: float | None = None
    """Cost of every step in place of a Gymnasium environment's own reward, for example -1. Terminal
    states then have the value 0."""
    key: str | None = None
    """Which part of a Dict observation to learn from."""
    layout: int = 0
    """Seed of a MiniGrid environment's grid."""
    tile: int = 3
    """Pixels per cell of a MiniGrid environment."""
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
        directory, report, note = obtain(self, world, console)
        print_report(console, report, directory, note, as_json=self.json)


def obtain(options: Learn, world: World, console: Console) -> tuple[Path, dict[str, Any], str]:
    """Trains a fit unless it is already there.

    Args:
        options: How to train it.
        world: What `options.env` stands for.
        console: Where progress is shown.

    Returns:
        The directory of the fit, its report, and whether it is new.
    """
    from drogo.requests import ResultDirectory, library_digest

    settings = {"lam": Config.lam, "objective": Config.objective, **options.settings}
    replace(Config(), **settings)  # a value that cannot be used is an error before anything is done
    request = {
        "verb": "learn",
        "drogo": drogo.__version__,
        "library": library_digest(),
        "world": world.digest,
        "view": world.view,
        "reward": options.reward,
        "preset": options.preset,
        "settings": settings,
        "seeds": options.seeds,
        "transitions": options.transitions,
        "data_seed": options.data_seed,
    }
    parts = [world.name, world.view, options.preset, settings["objective"]]
    parts += [f"lam{settings['lam']:g}", f"{options.seeds}seeds"]
    result = ResultDirectory(options.out, "-".join(filter(None, parts)), request)
    report = None if options.overwrite else result.report()
    if report is not None:
        return result.path, report, "Already there"
    checkpoint = result.path / CHECKPOINT
    if options.overwrite:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists() and not options.resume:
        raise AlreadyExists(
            f"{result.path} holds an interrupted run. Continue it with --resume, or start again "
            "with --overwrite."
        )
    resumes = options.resume and checkpoint.exists()
    note = "Written" if resumes or not options.resume else "Written (there was nothing to resume)"
    return result.path, _train(options, settings, world, result, console), note


def _train(
    options: Learn,
    settings: dict[str, Any],
    world: World,
    result: ResultDirectory,
    console: Console,
) -> dict[str, Any]:
    from drogo.cli import pictures
    from drogo.files import write_file

    loggers = _loggers(options.log, result.path)  # a missing package is an error before any work
    with console.status(f"collecting {options.transitions} transitions"):
        data = drogo.collect(
            world.env, options.transitions, seed=options.data_seed, **world.sampling
        )
        truth = pictures.truth(world, data, settings["lam"])
    result.begin(overwrite=options.overwrite)
    checkpoint = result.path / CHECKPOINT
    try:
        with progress_bar(console, "learning") as update:
            fitted = drogo.fit(
                data,
                preset=options.preset,
                seeds=options.seeds,
                truth=truth,
                checkpoint=checkpoint,
                callbacks=[_shown(update), *loggers],
                **settings,
            )
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
    fitted.save(result.path / FILES["fit"], overwrite=True)
    how = f"{settings['objective']}, {options.preset}, {fitted.network}, lambda = "
    figure = pictures.learned(world, fitted, f"{how}{settings['lam']:g}")
    write_file(result.path / FILES["picture"], drogo.plot.as_png(figure), overwrite=True)
    report = result.finish(_report(options, fitted))
    checkpoint.unlink(missing_ok=True)
    return report


def _shown(update: Callable[[int, int, str], None]) -> Callable[[Any], None]:
    """A callback of `fit` that updates the progress bar."""

    def show(event: Any) -> None:
        remark = ""
        if "cosine_column" in event.row:
            remark = f"smallest cosine {event.row['cosine_column'].min():.4f}"
        elif "worst" in event.row:
            remark = f"largest residual {event.row['worst'].max():.2g}"
        update(event.update, event.updates, remark)

    return show


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
    report = {
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
        "warnings": fitted.diagnosis(),
    }
    return {**report, "table": _table(report)}


COLUMNS = {
    "column": "cosine_column",
    "difference": "difference_column",
    "represent.": "cosine_representation",
    "transition": "cosine_transition",
    "worst": "worst",
}


def _table(report: dict[str, Any]) -> dict[str, Any]:
    seeds = report["seeds"]
    shown = {title: name for title, name in COLUMNS.items() if name in seeds[0]}
    caption = "worst: largest residual of any state's equation, or of groups of held-out "
    caption += "transitions where states do not repeat"
    if "column" in shown:
        known = "cosine with each exact vector; difference: largest difference to the log of the "
        caption = f"{known}exact column; {caption}"
    else:
        caption = f"no exact vector is known; {caption}"
    rows = []
    for seed in seeds:
        values = (seed[name] for name in shown.values())
        cells = ["-" if value is None else f"{value:.5f}" for value in values]
        rows.append([str(seed["seed"]), *cells, seed["status"]])
    title = f"{report['env']}: {report['config']['objective']}, {report['preset']}, "
    title += f"{report['network']}, {report['updates']} updates"
    columns = {"seed": "right", **dict.fromkeys(shown, "right"), "status": "left"}
    return table(title, caption, columns, rows)
