"""Program: samples the lengths of the packets of one device for a while and prints {direction:
{length: count}} as JSON.

    _lengths.py DEVICE SECONDS SHARE

It begins at SIGINT, runs where the device is and imports nothing but the standard library. A
classic BPF program takes one packet in SHARE at random (the extension SKF_AD_RANDOM) and cuts it to
nothing, so that next to nothing is copied; the true length of the super-packet comes in
PACKET_AUXDATA (struct tpacket_auxdata, include/uapi/linux/if_packet.h).
"""

from __future__ import annotations

import ctypes
import json
import signal
import socket
import struct
import sys
import time

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, SO_ATTACH_FILTER, OUTGOING = 3, 263, 8, 26, 4
LOAD, GREATER, RETURN, RANDOM = (
    0x20,
    0x25,
    0x06,
    0xFFFFF000 + 56,
)  # BPF_LD|W|ABS, BPF_JMP|JGT|K, BPF_RET|K, SKF_AD_OFF + SKF_AD_RANDOM


def sampler(device: str, share: int) -> socket.socket:
    instructions = [
        (LOAD, 0, 0, RANDOM),
        (GREATER, 1, 0, 0xFFFFFFFF // share),
        (RETURN, 0, 0, 1),
        (RETURN, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *each) for each in instructions)
    )
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    sock.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("HL", len(instructions), ctypes.addressof(code)),
    )
    sock.bind((device, ETH_P_ALL))
    sock.settimeout(0.05)
    return sock


def main() -> None:
    device, seconds, share = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    print("ready", file=sys.stderr, flush=True)
    signal.sigwait({signal.SIGINT})  # nothing touches the device before this
    found: dict[str, dict[int, int]] = {"sent": {}, "received": {}}
    sock = sampler(device, share)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            _, ancillary, _, address = sock.recvmsg(1, 64)
        except TimeoutError:
            continue
        for level, kind, data in ancillary:
            if level == SOL_PACKET and kind == PACKET_AUXDATA:
                length = struct.unpack_from("II", data)[1]
                counts = found["sent" if address[2] == OUTGOING else "received"]
                counts[length] = counts.get(length, 0) + 1
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
