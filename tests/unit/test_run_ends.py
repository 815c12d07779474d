"""What a SIGTERM does to a run: the same as Ctrl-C."""

import os
import signal
import time

import pytest

from kairoscope.run import run


def test_a_sigterm_interrupts_within_the_run_only():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), run._terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)  # it does not come to its end
    assert signal.getsignal(signal.SIGTERM) is before
