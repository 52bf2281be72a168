"""PROBE, a subgradient method with its own stopping rule (Smith, Kim & Wilbur 2012), and Pegasos.

`probe` holds the state machines of one label: from its objective and subgradient to its next step.
`linear` computes these for 16 labels in a pass and runs the training. Results are weights, steps and
a history of φ and f. Begin with `probe`, which is Algorithm 1.
"""
