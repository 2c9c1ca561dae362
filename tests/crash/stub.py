"""`python -I -S stub.py DOOR PROGRAM FOLDER`: has the nursery behind DOOR start a program, in place of this process.

The program gets the pipes of this process, which ends when the program has ended. It imports next to nothing.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nursery:
    nursery.connect(sys.argv[1])
    asked = {"command": sys.argv[2:], "environment": {**os.environ}}
    socket.send_fds(nursery, [json.dumps(asked).encode()], [0, 1, 2])
    nursery.recv(64)
    # Held here as well, they would never end for the other side.
    os.close(0)
    os.close(1)
    nursery.recv(1)
