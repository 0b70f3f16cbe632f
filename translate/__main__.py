"""`python -m translate` is `translate`."""

from translate.cli import main

if __name__ == "__main__":
    main()
