"""`python -m gateway` is `grounding-gateway`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
