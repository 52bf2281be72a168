"""The only code that imports numba: compiled passes over CSR rows and blocks of weights."""
