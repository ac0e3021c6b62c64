"""The functions that the jobs of the reproduction run.

They depend on nothing but their settings, this package and the library: editing a figure does not
invalidate finished runs.
"""
