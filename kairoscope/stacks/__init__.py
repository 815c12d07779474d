"""What stands on the hosts: a folder for each system under test."""
