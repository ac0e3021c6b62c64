"""What is wrong with data."""


class DataError(ValueError):
    """Transitions from which the vector cannot be learned, and why."""
