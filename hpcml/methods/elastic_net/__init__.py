"""The elastic net for every label: sparse linear models, exact or by stochastic gradient descent.

Inputs are all rows on every rank, the same rows by columns (`ColumnIndex`), and λ₁ and λ₂. `newton` is the exact solver: an active
set of features and proximal Newton steps, whose time grows with the number of positive rows. `delayed` is the solver of Lipton &
Elkan (2015). `certifier` computes objective, certified gap and gradient of the weights of both. Start with `train`, `newton` and
`certifier`.
"""
