"""Tests of the machine, the launcher and the file system, and digests of what every method computes. Begin with `bits`."""
