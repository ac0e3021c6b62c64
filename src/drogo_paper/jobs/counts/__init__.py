"""The count experiment of Tse, Chandrasekar and Machado (2025): its settings, replay and jobs.

A package of its own, so that editing it does not invalidate the runs of other questions.
"""
