"""How a step moves: the splitting grammar, its three letters, and the over- and underdamped steps."""
