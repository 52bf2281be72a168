"""Leave-one-out scores: the score of a training row by a model that was trained without it, from one training.

Problem: minimise f(w) = λ/2 ‖w‖² + 1/m Σ c_i [1 − y_i f_i]₊² (squared hinge; the constant feature is a column). Let S be the rows
with ξ_i = 1 − y_i f_i > 0, and C_i = c_i / (λ m). While S stays the same, a label that is trained without row i of S gives it

    f_i = y_i (1 − ξ_i (1 + a_i)),     a_i = 2 C_i x_iᵀ H₋ᵢ⁻¹ x_i,     H₋ᵢ = I + 2 Σ_{s ∈ S, s ≠ i} C_s x_s x_sᵀ

exactly, and the scores of rows outside S stay the same (Chapelle & Vapnik 2000). `scores` approximates H₋ᵢ, and counts the scores
of each label in the cells of `cells`; the time of a label follows its support.
"""
