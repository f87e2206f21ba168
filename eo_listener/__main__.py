"""`python -m eo_listener`, the same as the command `eo-listener`."""

from eo_listener.cli import main

if __name__ == "__main__":
    main()
