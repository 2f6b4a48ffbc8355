"""Issues in, issues out: reads the issues of a review out of an answer, and writes verdicts back in the same format.

`read_review` never raises and never changes a text; `treat` gives edits that leave every other byte alone. One file per
format; `read` puts them together, `rules` says as data what happens to fields that depend on removed issues.
"""

from checks.review.findings.read import read_review, settled, treat
from checks.review.findings.rules import RULES, FieldRule, Rule
from checks.review.findings.treat import apply

__all__ = ["RULES", "FieldRule", "Rule", "apply", "read_review", "settled", "treat"]
