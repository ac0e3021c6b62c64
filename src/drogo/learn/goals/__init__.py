"""A map to every goal at once, v(s, g), learned from transitions; and new tasks from it."""

from drogo.learn.goals.config import GoalConfig as GoalConfig
from drogo.learn.goals.files import load_goals as load_goals
from drogo.learn.goals.fit import fit_goals as fit_goals
from drogo.learn.goals.result import GoalMap as GoalMap
from drogo.learn.goals.transfer import GoalTask as GoalTask
