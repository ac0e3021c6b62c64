"""`drogo exact ENV`: computes the vector in closed form, as a picture and a file."""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import drogo
from drogo.cli import output

if TYPE_CHECKING:
    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

FILES = {"picture": "picture.png", "vector": "vector.npz"}
KIND = "vector"
FACTS = ("definition", "lam", "delta", "terminal", "status")


@dataclass(frozen=True)
class Exact:
    """Compute the vector in closed form: a picture and a file."""

    env: output.Env
    lam: float = 20.0
    """Temperature lambda. A smaller value makes the vector more sensitive to rewards."""
    definition: Literal["column", "transition", "representation", "right"] = "column"
    """The vector: the fixed point of the DROGO loss (column), or one of the eigenvectors."""
    delta: float = 0.001
    """Cost of one step in an absorbing terminal state."""
    terminal: Literal["absorbing", "zero-row"] = "absorbing"
    """Rows of terminal states in the default representation."""
    reward: output.Reward = None
    layout: output.Layout = None
    actions: output.Actions = ()
    out: output.Out = Path("results/exact")
    overwrite: output.Overwrite = False
    json: output.Json = False

    def run(self) -> None:
        output.solve(self, self.definition, self._solve)

    def _solve(self, world: "World", result: "ResultDirectory") -> dict[str, Any]:
        from drogo.cli import pictures
        from drogo.problems.worse_ends import notes_of

        mdp = world.mdp
        began = time.perf_counter()
        solution = drogo.exact.solve(
            mdp, self.lam, self.definition, delta=self.delta, terminal=self.terminal
        ).checked()
        seconds = time.perf_counter() - began
        finite = solution.log_e[abs(solution.log_e) < math.inf]
        report = {
            "env": self.env,
            "states": len(solution.log_e),
            **{name: getattr(solution, name) for name in FACTS},
            "eigenvalue": output.number(solution.eigenvalue),
            "bracket": solution.bracket and list(map(output.number, solution.bracket)),
            "residual": float(solution.residual),
            "error": float(solution.error),
            "log_e_min": float(finite.min()),
            "log_e_max": float(finite.max()),
            "seconds": seconds,
            "files": FILES,
            "warnings": [],
        }
        lines = {"definition": solution.definition, "lambda": f"{solution.lam:g}"}
        if solution.definition != "column":
            absorbing = f"absorbing, delta {solution.delta:g}"
            low, high = ("unbounded" if b is None else f"{b:.10g}" for b in report["bracket"])
            lines["terminal states"] = absorbing if solution.terminal == "absorbing" else "zero row"
            lines |= {"eigenvalue": f"{report['eigenvalue']:.10g}", "bracket": f"{low} to {high}"}
        lines |= {"log e": f"{finite.min():.6g} to {finite.max():.6g}"}
        errors = {"residual": solution.residual, "estimated error": solution.error}
        lines |= {name: f"{error:.1e}" for name, error in errors.items()}
        lines |= {"status": solution.status, "time": f"{seconds * 1e3:.1f} ms"}
        rows = [{"": name, " ": value} for name, value in lines.items()]
        title = f"{self.env}, {report['states']} states"
        report["table"] = output.table(title, "", rows, left=("",))
        if self.definition == "column":
            is_certain = mdp.outcomes.next_state.shape[2] == 1
            notes = notes_of(mdp.edges, self.lam) if is_certain else []
            report["warnings"] = [text for text in (*mdp.notes, mdp.stuck_text, *notes) if text]
        arrays = {"log_e": solution.log_e, "reward": mdp.reward, "terminal": mdp.terminal}
        settings = {}
        if world.grid is not None:
            arrays["cells"] = world.grid.cells
        else:
            settings["states"] = [json.dumps(key, default=str) for key in mdp.states]
        picture = drogo.plot.as_png(pictures.exact(world, solution))
        return output.keep(self, result, KIND, arrays, report, {"picture": picture}, **settings)
