"""How the documentation's pages are made; none of it is a page."""
