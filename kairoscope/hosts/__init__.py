"""The hosts of a deployed target, from its inventory: who they are, and the ways to them."""
