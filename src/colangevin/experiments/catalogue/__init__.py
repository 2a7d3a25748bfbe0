"""What the experiments are: data, networks, methods, and the paper's claims about them."""
