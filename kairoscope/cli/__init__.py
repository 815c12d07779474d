"""The door: each command parses its options, calls one function of a room, and prints."""
