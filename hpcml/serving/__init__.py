"""Answering over HTTP: the headings of texts, and a page to try them in."""
