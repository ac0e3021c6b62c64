# The public names, one list. `__init__.py` reads this file, and so do type checkers.
from . import agents as agents
from . import data as data
from . import errors as errors
from . import exact as exact
from . import learn as learn
from . import mdp as mdp
from . import plot as plot
from . import runs as runs
from . import use as use
from . import worlds as worlds
from .config import PRESETS as PRESETS
from .config import Config as Config
from .data import Step as Step
from .data import Transitions as Transitions
from .data import collect as collect
from .errors import ArgumentError as ArgumentError
from .errors import BadCheckpoint as BadCheckpoint
from .errors import DamagedFile as DamagedFile
from .errors import DataError as DataError
from .errors import Diverged as Diverged
from .errors import DrogoError as DrogoError
from .errors import MapError as MapError
from .errors import MDPError as MDPError
from .errors import NotConverged as NotConverged
from .learn import LogEigenvector as LogEigenvector
from .learn import fit as fit
from .learn import load as load
from .learn import sweep as sweep
from .mdp import MDP as MDP
from .potential import Potential as Potential
from .use import PotentialShaping as PotentialShaping
from .use import VectorPotentialShaping as VectorPotentialShaping
from .worlds.control import STARTS as STARTS
from .worlds.grid import GridWorld as GridWorld
from .worlds.minigrid import MiniGridWorld as MiniGridWorld

__version__: str
