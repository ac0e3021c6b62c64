"""The problems: what is sought. Each one knows its equation, its exact solution and its views.

All are imported at once, so that `load` knows the classes that a file names.
"""

from drogo.learn.solution import load as load
from drogo.problems.column import Column as Column
from drogo.problems.continuing import Continuing as Continuing
from drogo.problems.goals import Goals as Goals
from drogo.problems.shared import solve as solve
from drogo.problems.soft import Soft as Soft
from drogo.problems.spectrum import Spectrum as Spectrum
from drogo.problems.tasks import GoalTask as GoalTask
from drogo.public import check_all

check_all(globals())
