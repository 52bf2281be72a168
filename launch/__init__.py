"""Scripts of a clone: set-up, tests, and the laboratory (`launch.lab`)."""
