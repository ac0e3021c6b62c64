"""Options: policies with a beginning and an end, made from potentials, beside primitive actions."""

from drogo.use.options.learned import learned_option
from drogo.use.options.option import Option
from drogo.use.options.tabular import TabularOption, climb, make_option, solve_option
from drogo.use.options.wrapper import OptionWrapper

__all__ = [
    "Option",
    "OptionWrapper",
    "TabularOption",
    "climb",
    "learned_option",
    "make_option",
    "solve_option",
]
