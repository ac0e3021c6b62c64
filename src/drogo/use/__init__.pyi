# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .goals import GoalShaping as GoalShaping
from .options import (
    Option as Option,
    OptionWrapper as OptionWrapper,
    learned_option as learned_option,
    make_option as make_option,
)
from .shaping import (
    AbstractShaping as AbstractShaping,
    PotentialShaping as PotentialShaping,
    VectorPotentialShaping as VectorPotentialShaping,
)
