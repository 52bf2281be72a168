"""`hpcml check`: tests of the machine, the launcher and the file system; and digests of what every method computes."""
