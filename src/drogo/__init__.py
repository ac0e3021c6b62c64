"""drogo: the default representation's principal eigenvector, exact and learned, and its uses.

Public names load what they need when first used, so that `import drogo` and `drogo --help` are
immediate. The environments `drogo/...-v0` are known to Gymnasium from the moment both it and this
package are imported, in either order.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drogo import exact
    from drogo.gridworld import GridWorld, MapError
    from drogo.learn import LogEigenvector, Transitions, collect, fit, load, sweep
    from drogo.mdp import MDP, MDPError
    from drogo.potential import Potential
    from drogo.use import PotentialShaping, VectorPotentialShaping

_WHERE = {
    "GridWorld": "drogo.gridworld",
    "LogEigenvector": "drogo.learn",
    "Transitions": "drogo.learn",
    "collect": "drogo.learn",
    "fit": "drogo.learn",
    "load": "drogo.learn",
    "sweep": "drogo.learn",
    "MapError": "drogo.gridworld",
    "MDP": "drogo.mdp",
    "MDPError": "drogo.mdp",
    "Potential": "drogo.potential",
    "PotentialShaping": "drogo.use",
    "VectorPotentialShaping": "drogo.use",
}
_ROOMS = ("exact",)

__all__ = [
    "MDP",
    "GridWorld",
    "LogEigenvector",
    "MDPError",
    "MapError",
    "Potential",
    "PotentialShaping",
    "Transitions",
    "VectorPotentialShaping",
    "collect",
    "exact",
    "fit",
    "load",
    "sweep",
]
__version__ = "0.1.0"


def __getattr__(name: str):
    if name in _ROOMS:
        return importlib.import_module(f"drogo.{name}")
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'drogo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _register_environments() -> None:
    importlib.import_module("drogo.gridworld.register").register()


class _RegisterAfterGymnasium(importlib.abc.MetaPathFinder):
    """Registers the environments as soon as Gymnasium has been imported.

    Importing it here would cost every `drogo --help` half a second; waiting for a public name to
    be used would break `import drogo; import gymnasium; gymnasium.make("drogo/...")`.
    """

    asking = False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "gymnasium" or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.asking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_register(module):
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _register_environments()

        # Gymnasium's own loader in all else: tools that ask it for data files keep working.
        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


if "gymnasium" in sys.modules:
    _register_environments()
else:
    sys.meta_path.insert(0, _RegisterAfterGymnasium())
