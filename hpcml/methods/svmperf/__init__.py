"""SVMperf's 1-slack cutting planes (Joachims 2006), to compare with, on PROBE's passes. Begin with `svmperf`."""
