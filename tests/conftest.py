"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("sandlot", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sandlot")

# A shell that starts the suite in the background has it ignore Ctrl-C, and so would every program that a test starts
# and interrupts: what is ignored stays ignored over exec, what is handled becomes the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
