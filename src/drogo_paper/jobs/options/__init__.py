"""Option discovery of Tse, Chandrasekar and Machado (2025): its settings and jobs.

A package of its own, so that editing it does not invalidate the runs of other questions.
"""
