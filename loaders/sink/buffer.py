"""The one buffer of all connections: what is read is looked at before anything else is read."""

MOST_HEAD = 64 * 1024  # also the longest telnet line
_READ = 256 * 1024

BUFFER = bytearray(MOST_HEAD + _READ)
VIEW = memoryview(BUFFER)
