"""Sphere steps: the rows of a whole model in one launch for each width.

What lies on a sphere is called a row, whatever slice of the weight it is. A program holds whole rows, so that
their norms and inner products never leave the chip.

Memory moved at temperature 0: 5 words a weight without slack, 7 with it; Adam moves 2 more.
"""
