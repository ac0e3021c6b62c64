"""Results on disk."""

from drogo.runs.files import read_array_file, write_array_file, write_file

__all__ = ["read_array_file", "write_array_file", "write_file"]
