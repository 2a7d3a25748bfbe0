"""One step of many parameters: who moves with whom, on which path, and what is looked at before."""
