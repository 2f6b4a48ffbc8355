"""Evaluation of checks on labelled data."""
