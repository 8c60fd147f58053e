"""A job store in plain Python: what the protocol promises, written a second time, to compare the real ones with.

It keeps everything in dictionaries, knows no time (whatever lies ahead never comes, what is late is late from the
start), and does one thing after the other.
"""
