"""Alembic migrations of the ledger; packaged, so that `grounding-gateway migrate` works from the wheel."""
