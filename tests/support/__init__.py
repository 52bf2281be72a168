"""Plugins of the test suite."""
