"""The jobs of an experiment as tasks of Ray, on one machine or many."""
