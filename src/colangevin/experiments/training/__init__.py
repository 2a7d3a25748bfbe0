"""Training of an experiment's networks, job by job."""
