"""Run folders in a browser, on this machine alone: the report of each, and of one that goes on the
report as it grows.

Reads run folders and writes nothing. `shelf` has which there are, `tails` reads what is appended to
their files, `standing` says what can be said of a verdict before there is one, `pages` makes the
pages, `web` serves them, `beside` does so beside a load, in a process of its own (`__main__`).
"""
