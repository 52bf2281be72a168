"""Which features are worth keeping: information gain, chi-square, and extremal feature selection by the weights of a Winnow."""
