"""`python -m sandlot` is the command `sandlot`, for an interpreter whose scripts are not on the path."""

from sandlot.cli.main import main

main()
