"""What holds for all layers."""

import signal

# A shell starts what it puts in the background with SIGINT ignored, and that is handed on to every
# process below: tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
