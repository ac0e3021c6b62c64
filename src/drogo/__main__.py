"""`python -m drogo` is the `drogo` command."""

from drogo.cli import main

main()
