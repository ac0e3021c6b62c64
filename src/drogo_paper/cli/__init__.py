"""The verbs of the experiments: entry points of the `drogo` command."""
