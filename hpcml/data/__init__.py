"""The HDF5 sparse dataset: schema, shards, writers, and the sources it is made from."""
