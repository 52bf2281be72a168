"""SVMperf's cutting planes."""
