"""Rows that are nearly the same, and how far their labels agree: `hpcml duplicates`.

Rows are hashed to a few least hashes (`kernels`), those that agree in a band go to the same rank and are compared exactly
(`pairs`). From the pairs follows how consistent labels are (`consistency`). Begin with `search`.
"""
