"""PSBML: boosting by a spatial evolutionary algorithm on a torus of ranks (Kamath, Domeniconi & De Jong 2018)."""
