"""PROBE, a subgradient method with its own stopping rule (Smith, Kim & Wilbur 2012), and Pegasos.

`probe` has the state machine of one label (Algorithm 1): from objective and subgradient to the next step. `linear` computes these
for 16 labels per pass and runs the training.
"""
