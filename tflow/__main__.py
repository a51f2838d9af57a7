"""``python -m tflow`` is the command line."""

from tflow.cli import main

if __name__ == "__main__":
    main()
