"""Fixtures that several folders share."""

import os
import signal
import threading

from browsers import chromium as chromium

os.environ.setdefault("TRAINDX_LIVE", "0")  # no judge beside every run of a test; those about it ask for one

# a shell that starts the tests in the background lets them ignore Ctrl-C, and every program they start inherits that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
