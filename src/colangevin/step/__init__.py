"""One step of many parameters: which of them move together, on which path, and what is checked before."""
