# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .column import Column as Column
from .continuing import Continuing as Continuing
from .goals import Goals as Goals
from .shared import solve as solve
from .soft import Soft as Soft
from .spectrum import Spectrum as Spectrum
from .tasks import GoalTask as GoalTask
