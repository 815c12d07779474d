"""Hands frames on between two network devices, each later by a constant; a program of its own.

    python delay.py PORT OTHER SECONDS

PORT leaves its switch once it is listened to, and the switch has the other end of OTHER in its
place. The program goes on in the background until one of the two devices is gone. Imports nothing
of Kairoscope's, so that it starts at once. Frames come and go with what the kernel knows of
checksums and of segments that it did not make yet (PACKET_VNET_HDR: packet(7)).
"""

import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque

# Of linux/if_packet.h, asm-generic/socket.h and linux/if_ether.h: Python's socket has none of them.
_SOL_PACKET, _VNET_HDR, _IGNORE_OUTGOING = 263, 15, 23
_SEND_BUFFER, _RECEIVE_BUFFER = 32, 33  # SO_SNDBUFFORCE, SO_RCVBUFFORCE
_ALL = 0x0003  # ETH_P_ALL
_LONGEST = 1 << 17  # segments that are joined are of 64 KiB, their headers aside
_BUFFER = 1 << 24
_AT_ONCE = 64  # frames of one side before the other has its turn


def main(port: str, other: str, delay_s: float) -> None:
    """Hand frames on between two devices, `delay_s` later, until one of them is gone."""
    one, two = _listen(port), _listen(other)
    # Without ARP, as the kernel itself would answer for the switch's address what passes by here.
    for device in (port, other):
        subprocess.run(["ip", "link", "set", device, "nomaster", "arp", "off"], check=True)
    for side in (one, two):  # what the switch has handed on itself
        with contextlib.suppress(BlockingIOError):
            while True:
                side.recv(_LONGEST)
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    with contextlib.suppress(OSError):
        _hand_on(one, two, delay_s)


def _listen(device: str) -> socket.socket:
    side = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    side.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    side.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    side.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER, _BUFFER)
    side.setsockopt(socket.SOL_SOCKET, _SEND_BUFFER, _BUFFER)
    side.bind((device, _ALL))
    side.setblocking(False)
    return side


def _hand_on(one: socket.socket, two: socket.socket, delay_s: float) -> None:
    """Until a device is gone, which is an OSError."""
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([one, two], [], [], wait_s)
        due = time.monotonic() + delay_s
        for side in ready:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_AT_ONCE):
                    waiting.append((due, two if side is one else one, side.recv(_LONGEST)))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, frame = waiting.popleft()
            try:
                to.send(frame)
            except OSError as error:
                # Lost, as on a line that has too much to carry.
                if error.errno not in (errno.ENOBUFS, errno.EAGAIN, errno.EMSGSIZE):
                    raise


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
