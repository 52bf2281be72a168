"""Benchmarks: `python -m launch.lab bench NAME`. Each module without a leading underscore has a function main(words)."""
