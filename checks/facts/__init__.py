"""The fact-check: segments, questions, classification, aggregation."""
