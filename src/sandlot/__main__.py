"""`python -m sandlot`: the command line of this very interpreter."""

from sandlot.cli.main import main

if __name__ == "__main__":
    main()
