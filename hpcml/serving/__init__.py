"""HTTP server for labels of texts, with a page to try it.

`serve` runs uvicorn in a thread. `app` has the addresses and the answers, `requests` parses and checks requests, and `suggest`
finds labels: it converts texts to rows as `convert --like` and scores them. All texts are scored by a single thread (`app.Worker`).
Begin with `serve`, then `app`.
"""
