"""Target `local`: the servers are processes of this machine, on loopback addresses."""
