"""Fixtures that several folders share."""

from browsers import chromium as chromium
