"""Request counts and durations in the text format 0.0.4 of Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator

METRICS = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # upper bounds of buckets in seconds


class Metrics:
    """Counters since the model was loaded."""

    def __init__(self, version: str) -> None:
        self.version, self.loaded, self.n_documents = version, time.time(), 0
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by path: requests per index into BOUNDS
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, path: str, status: int, seconds: float, n_documents: int) -> None:
        """Count a request."""
        self.requests[path, status] += 1
        self.buckets[path][bisect_left(BOUNDS, seconds)] += 1
        self.seconds[path] += seconds
        self.n_documents += n_documents

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metrics page."""

        def describe(name: str, kind: str, text: str) -> str:
            return f"# HELP {name} {text}\n# TYPE {name} {kind}"

        yield describe("hpcml_build_info", "gauge", "Version of hpcml.")
        yield f'hpcml_build_info{{version="{self.version}"}} 1'
        yield describe("hpcml_model_loaded_timestamp_seconds", "gauge", "Time at which the model was loaded.")
        yield f"hpcml_model_loaded_timestamp_seconds {self.loaded:.3f}"
        yield describe("hpcml_documents_total", "counter", "Texts with labels returned.")
        yield f"hpcml_documents_total {self.n_documents}"
        yield describe("hpcml_requests_total", "counter", "Requests by path and status.")
        for (path, status), n in sorted(self.requests.items()):
            yield f'hpcml_requests_total{{path="{path}",status="{status}"}} {n}'
        name = "hpcml_request_duration_seconds"
        yield describe(name, "histogram", "Time from the header of a request to its response, by path.")
        for path, counts in sorted(self.buckets.items()):
            total = 0
            for index, bound in enumerate((*map(str, BOUNDS), "+Inf")):
                total += counts[index]
                yield f'{name}_bucket{{path="{path}",le="{bound}"}} {total}'
            yield f'{name}_sum{{path="{path}"}} {self.seconds[path]:.6f}'
            yield f'{name}_count{{path="{path}"}} {total}'
