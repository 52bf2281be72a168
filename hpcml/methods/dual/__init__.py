"""Dual coordinate descent for many labels at once."""
