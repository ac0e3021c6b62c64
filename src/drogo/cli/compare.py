"""`drogo compare A B`: how far two fits are apart, and where."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import drogo
from drogo.cli.learn import FILES as FILES_OF_FIT
from drogo.cli.output import print_report, print_table, table, terminal
from drogo.errors import MissingFile

if TYPE_CHECKING:
    from drogo.requests import ResultDirectory

FILES = {"picture": "picture.png", "maps": "maps.npz"}
FORMAT = "drogo comparison 1"


@dataclass(frozen=True)
class Compare:
    """Compare two fits: settings, status, distances and a picture."""

    a: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
    """A fit's .npz file, or a result directory of `drogo learn`."""
    b: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="B")]
    """The fit that it is compared with."""
    out: Path = Path("results/compare")
    """Directory of all results; each result has its own directory in it."""
    overwrite: bool = False
    """Compute the result again even if it is already there."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> None:
        from drogo.cli import results
        from drogo.requests import ResultDirectory

        console = terminal(quiet=self.json)
        paths = [_file(given) for given in (self.a, self.b)]
        requests = [_request(path) for path in paths]
        asked = [
            {"sha256": _sha256(path), "request": request}
            for path, request in zip(paths, requests, strict=True)
        ]
        names = [path.parent.name if path.name == FILES_OF_FIT["fit"] else path.stem
                 for path in paths]  # fmt: skip
        request = {"verb": "compare", **results.code(), "names": names, "fits": asked}
        result = ResultDirectory(self.out, _label(names), request)
        make = partial(self._compare, paths, requests, names, result)
        with console.status("comparing"):
            report, note = results.obtain(self, result, make)
        for fit in ("a", "b"):
            console.print(f"{fit.upper()}: {report[fit]}", soft_wrap=True, markup=False)
        if not self.json:
            print_table(console, _settings_table(report))
            console.print()
        print_report(console, report, result.path, note, as_json=self.json)

    def _compare(
        self,
        paths: list[Path],
        requests: list[dict[str, Any]],
        names: list[str],
        result: ResultDirectory,
    ) -> dict[str, Any]:
        from drogo.cli import two_fits
        from drogo.files import write_array_file

        a, b = map(two_fits.read, paths, requests)
        report = {
            "a": names[0],
            "b": names[1],
            "settings": two_fits.differing_settings(a, b),
            "observations": [len(fit.result.observations) for fit in (a, b)],
            "shared": int(two_fits.shared(a, b)[0].size),
            "seeds": two_fits.by_seed(a, b),
            "files": FILES,
            "warnings": two_fits.remarks(a, b),
        }
        report["table"] = _table(report)
        title = f"A: {names[0]}\nB: {names[1]}"
        picture = drogo.plot.as_png(two_fits.figure(a, b, title))
        maps, settings = two_fits.maps(a, b), {"format": FORMAT, **result.request}
        with result.begin(overwrite=self.overwrite):
            write_array_file(result.path / FILES["maps"], maps, settings, overwrite=True)
            return result.finish(report, picture=picture)


def _file(given: Path) -> Path:
    """The file of a fit that was given by itself or by its directory."""
    path = given / FILES_OF_FIT["fit"] if given.is_dir() else given
    if not path.is_file():
        problem = f"{given} is neither a fit's .npz file nor a result directory of `drogo learn`"
        if given.is_dir():
            problem = f"{given} has no {FILES_OF_FIT['fit']}"
        raise MissingFile(
            f"{problem}.", remedy="Give what `drogo learn` or result.save has written."
        )
    return path


def _request(path: Path) -> dict[str, Any]:
    """The request of the result that a fit belongs to; nothing for a file that stands alone."""
    from drogo.files import read_json
    from drogo.requests import REQUEST

    beside = path.parent / REQUEST
    has_request = path.name == FILES_OF_FIT["fit"] and beside.is_file()
    return read_json(beside) if has_request else {}


def _sha256(path: Path) -> str:
    from drogo.files import read_file

    return hashlib.sha256(read_file(path)).hexdigest()


def _label(names: list[str]) -> str:
    """The readable part of the directory's name; names of fits are long, and paths have a limit."""
    return "-and-".join(name[:60] for name in names)


def _settings_table(report: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ; a result that is read again has them too."""
    rows = [
        {"setting": name, "A": _text(first), "B": _text(second)}
        for name, (first, second) in report["settings"].items()
    ]
    if not rows:
        rows = [{"setting": "no setting differs", "A": "", "B": ""}]
    return table("What differs", "", rows, left=("setting",))


def _table(report: dict[str, Any]) -> dict[str, Any]:
    is_known = any(value is not None for line in report["seeds"] for value in line["cosine_exact"])
    rows = []
    for line in report["seeds"]:
        row = {"seed": str(line["seed"])}
        row |= {"cos AB": _digits(line["cosine"], 4), "diff AB": _digits(line["difference"], 2)}
        for k, fit in enumerate("AB" if is_known else ""):
            row[f"cos {fit}"] = _digits(line["cosine_exact"][k], 4)
            row[f"diff {fit}"] = _digits(line["difference_exact"][k], 2)
        first, second = line["status"]
        row["status"] = first if first == second else f"{first} / {second}"
        rows.append(row)
    caption = "cos: cosine of two maps; diff: their largest difference of logs; AB: A with B"
    if is_known:
        caption += "; A, B: each with its exact column"
    title = f"compared at {report['shared']} states"
    return table(title, caption, rows, left=("status",))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _digits(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
