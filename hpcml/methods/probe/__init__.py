"""PROBE, and Pegasos beside it."""
