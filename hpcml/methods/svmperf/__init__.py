"""SVMperf's 1-slack cutting planes (Joachims 2006), for comparison, on PROBE's passes."""
