"""The end of the lab that all tests of this folder share."""

from deployed_lab import DeployedLab, left

from kairoscope.targets.lab import Lab


def test_destroy_leaves_nothing(lab: DeployedLab) -> None:
    there = Lab(lab.state)
    assert left(there)["processes"]
    runs = sorted((lab.home / "runs").iterdir())
    lab.well("destroy", "--target", "lab")
    assert not any(left(there).values()), left(there)
    assert not (lab.state / "deployed").exists()
    # Runs are results; they stay.
    assert sorted((lab.home / "runs").iterdir()) == runs
