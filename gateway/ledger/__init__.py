"""The verdict ledger: records, spool, Postgres."""
