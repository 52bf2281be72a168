"""Pictures, and the experiments that make them: `hpcml plot`.

Each experiment is a module (`convergence`, `selection`, `sparsity`, `differences`, `psbml`) that
computes numbers, and draws them with matplotlib, which is imported only there; a CSV file with the
numbers lies beside the picture. Begin with `psbml` or `convergence`.
"""
