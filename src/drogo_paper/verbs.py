"""The options of `drogo reproduce` and `drogo report`. Importing this file is cheap."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from drogo.cli.output import Flag, hint


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's figures and tables again, beside its published numbers."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, hint("", metavar="NAME")] = ()
    """Questions: by default ring, cosine, eigenvectors, shaping, shaping-successor,
    shaping-curves, formulations, environments, natural-gradient, ablation-tabular,
    ablation-network, ablation-network-paper, theory, transfer, counts and
    options. Only if named, since they take long: options-plain, options-returns."""
    protocol: Literal["text", "code", "newest", "library"] = "text"
    """text: the paper as its text says, where a seed stops once it is exact. code: the data,
    lengths and measures of the authors' code, which take hours. newest: the same with the networks
    of its newest version. library: learned with the settings that drogo recommends."""
    seeds: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: 10; 2 with --quick)")
    ] = None
    """Number of seeds."""
    quick: Flag = False
    """A quick look, which takes minutes: short runs, without the published numbers."""
    engine: Literal["local", "ray"] = "local"
    """local: processes on this machine. ray: a Ray cluster (needs the extra `ray`)."""
    address: Annotated[
        str | None, tyro.conf.arg(help_behavior_hint="(default: a new cluster on this machine)")
    ] = None
    """Address of a Ray cluster: `auto` is the one that this machine is part of."""
    workers: int = 0
    """Number of processes of the local engine; 0 means one for each core."""
    out: Path = Path("results/reproduce")
    """Directory of the results. Finished runs are kept in it."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from drogo_paper import command

        command.reproduce_questions(self)


@dataclass(frozen=True)
class Report:
    """Write the report of a directory that `drogo reproduce` has filled."""

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The option --out of `drogo reproduce`."""
    json: Flag = False
    """Print JSON instead of text."""

    def run(self) -> None:
        from drogo_paper import command

        command.write_reports(self)
