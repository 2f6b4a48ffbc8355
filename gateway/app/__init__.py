"""Composition root: the only place that names concrete classes.

`application` makes the ASGI application over a desk, `serving` the desk of one worker process from a configuration
file, `runtime` everything that one configuration names.
"""
