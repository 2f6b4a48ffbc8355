"""The check of code reviews: every issue of a review against the repository, hop by hop."""
