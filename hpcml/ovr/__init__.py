"""One-versus-rest training of many labels beside LIBLINEAR and other trainers, in one run: `hpcml bench ovr`."""
