"""Where: a target hands over machines. Local processes, one's own hosts, the lab, AWS."""
