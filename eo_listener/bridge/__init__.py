"""The committer as a program of its own, for a driver that runs no Python of ours.

The shim starts it as `python -m eo_listener.bridge` and tells it what Spark tells its listeners.
"""
