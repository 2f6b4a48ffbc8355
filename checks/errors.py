"""Errors of checking. Judging failures are states (`Reason`), not exceptions; these are for wrong set-up only.

ChecksError
├── ModelFileError     a shipped or configured model file is missing or broken
├── JudgeSetupError    a judge cannot be built from its configuration
├── RepositoryError    a repository cannot be opened, or its objects cannot be read
├── ReviewSetupError   a review check cannot be built from its settings
├── LabelledDataError  labelled data for an evaluation cannot be read
└── CassetteError      a file of recorded replies cannot be read
"""

from __future__ import annotations


class ChecksError(Exception):
    """Base of all errors of this package; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ModelFileError(ChecksError):
    """A model file is missing or broken."""


class JudgeSetupError(ChecksError):
    """A judge cannot be built from its configuration."""


class RepositoryError(ChecksError):
    """A repository cannot be opened, fetched, or its objects cannot be read."""


class ReviewSetupError(ChecksError):
    """The settings of a review check go against each other."""


class LabelledDataError(ChecksError):
    """Labelled data for an evaluation cannot be read; the message names file and line."""


class CassetteError(ChecksError):
    """A file of recorded replies cannot be read; the message names the line."""
