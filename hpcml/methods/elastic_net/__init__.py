"""The elastic net for every label: sparse linear models, exact or by stochastic descent.

What comes in are the rows of all ranks, on each, with a copy by columns (`ColumnIndex`), and the strengths λ₁ and λ₂. `newton` is
the exact solver: an active set of features and proximal Newton steps, in time that follows the rows that have a label. `delayed` is
the solver of Lipton & Elkan (2015). Both leave it to `judge` to say how good weights are: objective, certified gap, and the
gradient of every feature. What goes out are the columns of the weights that are not 0. Begin with `train`, `newton` and `judge`.
"""
