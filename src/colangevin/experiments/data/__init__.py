"""The data sets: found on this machine or downloaded, checked, and read."""
