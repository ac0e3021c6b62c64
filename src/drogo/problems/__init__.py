"""The problems: what is sought. They are imported together, since files name their classes."""

from drogo import public
from drogo.learn.solution import load as load
from drogo.problems.column import Column as Column
from drogo.problems.continuing import Continuing as Continuing
from drogo.problems.goals import Goals as Goals
from drogo.problems.shared import solve as solve
from drogo.problems.soft import Soft as Soft
from drogo.problems.spectrum import Spectrum as Spectrum
from drogo.problems.tasks import GoalTask as GoalTask

public.check_all(globals())
