"""Single-pass learners: the Winnow family, perceptron, passive-aggressive, ROMMA (Carvalho & Cohen 2006)."""
