"""Training of the shipped fact-checking models. Never imported while serving."""
