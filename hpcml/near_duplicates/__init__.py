"""Near-duplicate rows and the consistency of their labels: `hpcml duplicates`.

Rows are hashed to a few minimum hashes (`kernels`); rows that agree in a band are sent to one rank and compared exactly (`search`).
The labels of the pairs give the consistency of each label.
"""
