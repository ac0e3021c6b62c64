# The public names, one list. `__init__.py` reads this file, and so do type checkers.
from . import (
    agents as agents,
    data as data,
    errors as errors,
    exact as exact,
    learn as learn,
    mdp as mdp,
    plot as plot,
    runs as runs,
    use as use,
    worlds as worlds,
)
from .config import PRESETS as PRESETS, Config as Config
from .data import Step as Step, Transitions as Transitions, collect as collect
from .errors import (
    ArgumentError as ArgumentError,
    BadCheckpoint as BadCheckpoint,
    DamagedFile as DamagedFile,
    DataError as DataError,
    Diverged as Diverged,
    DrogoError as DrogoError,
    MapError as MapError,
    MDPError as MDPError,
    NotConverged as NotConverged,
)
from .learn import (
    LogEigenvector as LogEigenvector,
    certify as certify,
    fit as fit,
    fit_continuing as fit_continuing,
    fit_goals as fit_goals,
    fit_spectrum as fit_spectrum,
    load as load,
    load_continuing as load_continuing,
    load_goals as load_goals,
    load_spectrum as load_spectrum,
    sweep as sweep,
)
from .mdp import MDP as MDP
from .potential import Potential as Potential
from .use import (
    GoalShaping as GoalShaping,
    OnlineMap as OnlineMap,
    OnlineShaping as OnlineShaping,
    OnlineTable as OnlineTable,
    PotentialShaping as PotentialShaping,
    VectorOnlineShaping as VectorOnlineShaping,
    VectorPotentialShaping as VectorPotentialShaping,
)
from .worlds.control import STARTS as STARTS
from .worlds.goals import ReachGoals as ReachGoals
from .worlds.grid import GridWorld as GridWorld
from .worlds.minigrid import MiniGridWorld as MiniGridWorld
from .worlds.never_ending import NeverEnding as NeverEnding

__version__: str
