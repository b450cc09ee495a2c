"""What holds for every test."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background has it ignore Ctrl-C, and so would every program that a test starts
# and interrupts: what is ignored stays ignored over exec, what is handled becomes the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
