"""`python -m drogo` is the `drogo` command."""

from drogo.cli.main import main

main()
