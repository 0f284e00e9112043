"""usage: python _tunnelled.py PROGRAM...

Run in a network namespace of its own: flannel_udp, started by the words of PROGRAM, takes a packet
that is routed into its TUN device. Prints the packet's target, TTL and payload as the other node
receives them.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time

DEVICE, HERE, THERE, PORT = "tun7", "127.0.0.1", "127.0.0.2", 8285
_LIMIT = 30.0  # s: the program may be emulated


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], timeout=20, check=True)


def main() -> None:
    _ip("link", "set", "lo", "up")
    words = [*sys.argv[1:], DEVICE, HERE, f"10.9.2.0/24={THERE}"]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as node,
        subprocess.Popen(words) as tunnel,
    ):
        try:
            deadline = time.monotonic() + _LIMIT
            while DEVICE not in {name for _, name in socket.if_nameindex()}:
                assert tunnel.poll() is None, f"the program ended with {tunnel.returncode}"
                assert time.monotonic() < deadline, f"no {DEVICE}"
                time.sleep(0.05)
            _ip("address", "add", "10.9.1.1/16", "dev", DEVICE)
            _ip("link", "set", DEVICE, "up")
            node.settimeout(_LIMIT)
            node.bind((THERE, PORT))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 64)
                sender.sendto(b"a datagram", ("10.9.2.7", 9))
            packet = node.recv(2048)
        finally:
            tunnel.kill()
    ttl, target = struct.unpack_from("!8xB7x4s", packet)
    print(socket.inet_ntoa(target), ttl, packet[28:].decode())


if __name__ == "__main__":
    main()
