"""What is to be sent and when: pure arithmetic, the same on every host."""
