"""Parsing of requests: forms and JSON become questions, or a RequestError with status and message."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from hpcml.conversion.annif import parse_annif_document
from hpcml.conversion.vocabulary import Field
from hpcml.serving.suggest import Question

DEFAULT_LIMIT = 10  # labels
MAX_PARAMETERS = 100
MAX_WORDS = 100
MAX_TEXTS = 1000  # per request
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
METADATA = "metadata_"  # prefix of field names in a form
KNOWN = ("limit", "threshold", "words", "project", "language")  # Annif's clients send the last two; they have no effect


class RequestError(Exception):
    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def parse_form(body: bytes, name: str) -> dict[str, str]:
    """Parse the parameters of a form or query, called `name` in errors. Raises RequestError."""
    try:
        parameters = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS, strict_parsing=bool(body)
        )
    except UnicodeDecodeError:
        raise RequestError(400, f"{name}: invalid encoding; expected percent-encoded UTF-8") from None
    except ValueError:
        raise RequestError(400, f"{name}: invalid form; expected NAME=VALUE pairs, at most {MAX_PARAMETERS}") from None
    for parameter, values in parameters.items():
        if len(values) > 1:
            raise RequestError(400, f"{parameter[:60]}: given {len(values)} times; expected once")
    return {parameter: values[0] for parameter, values in parameters.items()}


def _parse_options(parameters: Mapping[str, str], known: Sequence[str], prefix: str = "") -> tuple[int, float, int]:
    """Return limit, threshold and number of words. Raises RequestError, also for unknown parameters."""
    for name in parameters:
        if name not in known and not (prefix and name.startswith(prefix)):
            names = ", ".join([*known, *([f"{prefix}NAME"] if prefix else [])])
            raise RequestError(400, f"{name[:60]}: unknown parameter; expected one of {names}")
    numbers = []
    for name, default in (("limit", DEFAULT_LIMIT), ("words", 0)):
        text = parameters.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise RequestError(400, f"{name}: {text[:60]!r}; expected a whole number of at least 0")
        numbers.append(int(text))
    try:
        threshold = float(parameters.get("threshold", "0")[:60])
    except ValueError:
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise RequestError(400, f"threshold: {parameters['threshold'][:60]!r}; expected a number from 0 to 1")
    return min(numbers[0], 2**31 - 1), threshold, min(numbers[1], MAX_WORDS)


def _field_values(fields: Sequence[Field], text: str, metadata: Mapping[str, str]) -> list[list[str]]:
    content = {**metadata, "text": text}
    return [[content[field.name]] if content.get(field.name) else [] for field in fields]


def parse_form_question(parameters: Mapping[str, str], fields: Sequence[Field], only_given: bool) -> Question:
    """Return the question of a form: text, metadata_NAME, limit, threshold, words. Raises RequestError."""
    if "text" not in parameters:
        raise RequestError(400, "missing parameter text")
    options = _parse_options(parameters, ("text", *KNOWN), METADATA)
    metadata = {name.removeprefix(METADATA): value for name, value in parameters.items() if name.startswith(METADATA)}
    return Question(_field_values(fields, parameters["text"], metadata), *options, only_given)


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON in UTF-8") from None


def parse_json_question(body: bytes, fields: Sequence[Field], only_given: bool) -> tuple[list[Question], list[str]]:
    """Return the question of {"text": …, "metadata": …, "limit": …}, and the id of the document. Raises RequestError."""
    content = _parse_json(body)
    if not isinstance(content, dict) or "documents" in content:
        raise RequestError(400, 'expected {"text": …}; send several documents to suggest-batch')
    keys = ("text", "metadata", "document_id")
    options = _parse_options({name: json.dumps(value) for name, value in content.items() if name not in keys}, (*keys, *KNOWN))
    try:
        parsed = parse_annif_document(content)
    except ValueError as error:
        raise RequestError(400, str(error)) from None
    return [Question(_field_values(fields, parsed.text, parsed.metadata), *options, only_given)], [parsed.name]


def parse_json_batch(
    body: bytes, query: Mapping[str, str], fields: Sequence[Field], only_given: bool
) -> tuple[list[Question], list[str]]:
    """Return the questions and ids of {"documents": [...]} or of a list; options are in the query. Raises RequestError."""
    options = _parse_options(query, KNOWN)
    documents = _parse_json(body)
    if isinstance(documents, dict):
        documents = documents.get("documents")
    if not isinstance(documents, list):
        raise RequestError(400, 'expected {"documents": [{"text": …}, …]} or a list of texts')
    if len(documents) > MAX_TEXTS:
        raise RequestError(413, f"{len(documents):,} texts; at most {MAX_TEXTS:,} are allowed in one request")
    questions, names = [], []
    for number, each in enumerate(documents):
        try:
            parsed = parse_annif_document({"text": each} if isinstance(each, str) else each)
        except ValueError as error:
            raise RequestError(400, f"document {number} (from 0): {error}") from None
        questions.append(Question(_field_values(fields, parsed.text, parsed.metadata), *options, only_given))
        names.append(parsed.name)
    return questions, names
