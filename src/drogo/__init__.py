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
    from drogo.mdp import MDP, MDPError

_WHERE = {
    "GridWorld": "drogo.gridworld",
    "MapError": "drogo.gridworld",
    "MDP": "drogo.mdp",
    "MDPError": "drogo.mdp",
}
_ROOMS = ("exact",)

__all__ = ["MDP", "GridWorld", "MDPError", "MapError", "exact"]
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


class _RegisterAfterGymnasium(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Registers the environments as soon as Gymnasium is imported.

    Importing it here would cost every `drogo --help` half a second; waiting for a public name to
    be used would break `import drogo; import gymnasium; gymnasium.make("drogo/...")`.
    """

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self.original, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.original.create_module(spec)

    def exec_module(self, module):
        self.original.exec_module(module)
        _register_environments()


if "gymnasium" in sys.modules:
    _register_environments()
else:
    sys.meta_path.insert(0, _RegisterAfterGymnasium())
