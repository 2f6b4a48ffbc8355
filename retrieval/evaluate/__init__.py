"""Measuring retrieval on labelled questions, and fitting a collection's weights to them."""
