"""What trained networks come to: scores, measures, and whether the paper's claims hold."""
