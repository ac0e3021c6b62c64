"""Options: policies with a beginning and an end, made from potentials, beside primitive actions."""

from drogo.use.options.option import Option
from drogo.use.options.tabular import TabularOption, climb, make_option, solve_option
from drogo.use.options.wrapper import OptionWrapper

__all__ = ["Option", "OptionWrapper", "TabularOption", "climb", "make_option", "solve_option"]
