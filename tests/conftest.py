"""Fixtures that several folders share."""

import os
import signal
import threading

import pytest

from browsers import chromium as chromium

os.environ["TRAINDX_CACHE"] = "0"  # verdicts of tests are made, never found; tests of the cache name their own
os.environ.setdefault("TRAINDX_LIVE", "0")  # no judge beside every run of a test; those about it ask for one


def pytest_collection_modifyitems(items):
    """Slow tests may take as long as they must: two hundred kills take longer than any other test may."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


# a shell that starts the tests in the background lets them ignore Ctrl-C, and every program they start inherits that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
