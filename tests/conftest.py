"""Fixtures that several folders share."""

import signal
import threading

from browsers import chromium as chromium

# a shell that starts the tests in the background lets them ignore Ctrl-C, and every program they start inherits that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
