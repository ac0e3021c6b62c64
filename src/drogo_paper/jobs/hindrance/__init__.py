"""Do options that are discovered on the way hinder an agent that must reach a goal?

A package of its own, so that editing it does not invalidate the runs of other questions.
"""
