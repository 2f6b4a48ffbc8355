"""Configuration: what may be said (model) and how it is read (load)."""
