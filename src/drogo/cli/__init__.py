"""The command line, with one file per verb."""
