"""Elastic net for every label at once: sparse linear models by an active set and proximal Newton steps (SPEC 3)."""
