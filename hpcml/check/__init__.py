"""`hpcml check`: checks of launcher, machine and file system (`check`), and digests of the results of all methods (`bits`)."""
