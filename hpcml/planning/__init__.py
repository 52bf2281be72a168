"""Plans: what a training would take, before it is queued."""
