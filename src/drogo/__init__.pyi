# The public names, one list. `__init__.py` reads this file, and so do type checkers.
from . import errors as errors, exact as exact, learn as learn, plot as plot, worlds as worlds
from .data import Transitions as Transitions, collect as collect
from .errors import DrogoError as DrogoError
from .integrations import sb3 as sb3
from .learn.certify import certify as certify
from .learn.fit import fit as fit, recommend as recommend
from .learn.methods import (
    ALLO as ALLO,
    GDO as GDO,
    GGDO as GGDO,
    Drogo as Drogo,
    LogGDO as LogGDO,
    NaturalGDO as NaturalGDO,
    Paper as Paper,
    Regression as Regression,
)
from .learn.solution import Solution as Solution
from .mdp import MDP as MDP
from .online import (
    OnlineMap as OnlineMap,
    OnlineShaping as OnlineShaping,
    OnlineTable as OnlineTable,
    VectorOnlineShaping as VectorOnlineShaping,
)
from .potential import Potential as Potential
from .problems import (
    Column as Column,
    Continuing as Continuing,
    Goals as Goals,
    Soft as Soft,
    Spectrum as Spectrum,
    load as load,
    solve as solve,
)
from .use import (
    GoalShaping as GoalShaping,
    PotentialShaping as PotentialShaping,
    VectorPotentialShaping as VectorPotentialShaping,
)
from .worlds import (
    GridWorld as GridWorld,
    MiniGridWorld as MiniGridWorld,
    NeverEnding as NeverEnding,
)

__version__: str
