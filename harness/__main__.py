"""`python -m harness` is `duologue`."""

from harness.cli.main import main

main()
