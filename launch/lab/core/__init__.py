"""The harness of papers and benchmarks: commands that run once, measurements, claims, tables, pictures."""
