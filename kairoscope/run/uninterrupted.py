"""What is done to its end, whoever presses Ctrl-C meanwhile."""

import threading
from collections.abc import Callable


def uninterrupted(work: Callable[[], None]) -> None:
    """Do something to its end, in another thread; a Ctrl-C meanwhile counts afterwards.

    Whether the work failed or not: what was to end the run ends it, with the failure as its cause.
    """
    interrupt: KeyboardInterrupt | None = None
    taken, over = threading.Lock(), threading.Event()
    failed: list[BaseException] = []

    def once() -> None:
        if not taken.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            over.set()

    while not over.is_set():
        try:
            # At each turn: Ctrl-C may have come before the last one was started.
            threading.Thread(target=once).start()
            over.wait()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt:
        raise interrupt from (failed[0] if failed else None)
    if failed:
        raise failed[0]
