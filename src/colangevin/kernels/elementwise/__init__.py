"""Free and circle steps: the weights of a whole model in one launch.

The table has a row for each copy of each weight, so that one launch takes any number of parameters, of any
size, radius and group.

Memory moved at temperature 0: 5 words a free weight, 6 a circle weight. A circle weight is only written: its
stored angle says what it is. Where others may have written the weight, it is read too, which makes 7 words.
"""
