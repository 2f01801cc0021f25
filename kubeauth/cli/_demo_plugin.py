"""The demo's exec plugin, a program of its own: asks the demo's issuer for a credential, and prints it.

It is run by its path and imports nothing of kubeauth, so that it starts in no time.
"""

import os
import socket
import sys


def main() -> None:
    """What the issuer says is an ExecCredential already."""
    host, _, port = os.environ["KUBEAUTH_DEMO_ISSUER"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as issuer, issuer.makefile("rwb") as stream:
        stream.write(os.environ["KUBEAUTH_DEMO_TICKET"].encode() + b"\n")
        stream.flush()
        credential = stream.read()
    if not credential:
        sys.exit("the demo's issuer gives me nothing")
    sys.stdout.buffer.write(credential)


if __name__ == "__main__":
    main()
