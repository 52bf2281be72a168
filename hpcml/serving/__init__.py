"""Answering over HTTP: the headings of texts, and a page to try them in.

A request comes to `serve` (uvicorn in a thread), becomes a question in `requests`, waits with others for the one thread that scores
(`worker`), and gets headings from `suggest`: the rows that `convert --like` would make of its texts, scored by the model. `app` has
the addresses and the answers. Begin with `serve`, then `app`.
"""
