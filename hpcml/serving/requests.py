"""Questions of clients: forms and JSON become questions, or a refusal with status and sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from hpcml.conversion.annif import parse_annif_document
from hpcml.conversion.vocabulary import Field
from hpcml.serving.suggest import Question

LIMIT = 10  # headings, where none is asked for
MOST_PARAMETERS = 100
MOST_WORDS = 100
MOST_TEXTS = 1000  # of one request
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
METADATA = "metadata_"  # before the names of fields in a form
KNOWN = ("limit", "threshold", "words", "project", "language")  # the last two are of Annif's clients and have no effect


class Refused(Exception):
    """A request that is not answered: the status, and a sentence."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def form_of(body: bytes, what: str) -> dict[str, str]:
    """The parameters of a form or a query. Raises Refused."""
    try:
        found = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS, strict_parsing=bool(body)
        )
    except UnicodeDecodeError:
        raise Refused(400, f"{what}: not a form in UTF-8; expected percent-encoding") from None
    except ValueError:
        raise Refused(400, f"{what}: not a form of at most {MOST_PARAMETERS} parameters") from None
    for name, values in found.items():
        if len(values) > 1:
            raise Refused(400, f"{name[:60]} is there {len(values)} times; expected it once")
    return {name: values[0] for name, values in found.items()}


def _wishes(parameters: Mapping[str, str], known: Sequence[str], prefix: str = "") -> tuple[int, float, int]:
    """Return how many headings, from which probability on, with how many words. Raises Refused, also for other parameters."""
    for name in parameters:
        if name not in known and not (prefix and name.startswith(prefix)):
            listed = ", ".join([*known, *([f"{prefix}NAME"] if prefix else [])])
            raise Refused(400, f"{name[:60]}: no such parameter; known: {listed}")
    numbers = []
    for name, default in (("limit", LIMIT), ("words", 0)):
        text = parameters.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise Refused(400, f"{name}: {text[:60]!r}, but expected a whole number from 0 on")
        numbers.append(int(text))
    try:
        threshold = float(parameters.get("threshold", "0")[:60])
    except ValueError:
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise Refused(400, f"threshold: {parameters['threshold'][:60]!r}, but expected a number from 0 to 1")
    return min(numbers[0], 2**31 - 1), threshold, min(numbers[1], MOST_WORDS)


def _values_of(fields: Sequence[Field], text: str, metadata: Mapping[str, str]) -> list[list[str]]:
    """Return the values of a text's fields: text, and what metadata says of others."""
    content = {**metadata, "text": text}
    return [[content[field.name]] if content.get(field.name) else [] for field in fields]


def question_of_form(parameters: Mapping[str, str], fields: Sequence[Field], only_given: bool) -> Question:
    """Return the question of a form: text, metadata_NAME, limit, threshold, words. Raises Refused."""
    if "text" not in parameters:
        raise Refused(400, "no parameter text; expected the text to find headings for")
    wishes = _wishes(parameters, ("text", *KNOWN), METADATA)
    metadata = {name.removeprefix(METADATA): value for name, value in parameters.items() if name.startswith(METADATA)}
    return Question(_values_of(fields, parameters["text"], metadata), *wishes, only_given)


def _parse_json(body: bytes) -> Any:
    """Return the value of a body. Raises Refused."""
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON in UTF-8") from None


def question_of_json(body: bytes, fields: Sequence[Field], only_given: bool) -> tuple[list[Question], list[str]]:
    """Return the question of {"text": …, "metadata": …, "limit": …}, and the document's id. Raises Refused."""
    content = _parse_json(body)
    if not isinstance(content, dict) or "documents" in content:
        raise Refused(400, 'expected {"text": …}; several documents go to suggest-batch')
    own = ("text", "metadata", "document_id")
    wishes = _wishes({name: json.dumps(value) for name, value in content.items() if name not in own}, (*own, *KNOWN))
    try:
        one = parse_annif_document(content)
    except ValueError as error:
        raise Refused(400, str(error)) from None
    return [Question(_values_of(fields, one.text, one.metadata), *wishes, only_given)], [one.name]


def questions_of_json(
    body: bytes, query: Mapping[str, str], fields: Sequence[Field], only_given: bool
) -> tuple[list[Question], list[str]]:
    """Return the questions of {"documents": [...]} or a list of texts and documents, and their ids ("" for
    none). Limit, threshold and words are in the query. Raises Refused.
    """
    wishes = _wishes(query, KNOWN)
    documents = _parse_json(body)
    if isinstance(documents, dict):
        documents = documents.get("documents")
    if not isinstance(documents, list):
        raise Refused(400, 'expected {"documents": [{"text": …}, …]}, or a list of texts')
    if len(documents) > MOST_TEXTS:
        raise Refused(413, f"{len(documents):,} texts, but at most {MOST_TEXTS:,} in one request")
    questions, names = [], []
    for number, each in enumerate(documents):
        try:
            content = parse_annif_document({"text": each} if isinstance(each, str) else each)
        except ValueError as error:
            raise Refused(400, f"document {number} (from 0): {error}") from None
        questions.append(Question(_values_of(fields, content.text, content.metadata), *wishes, only_given))
        names.append(content.name)
    return questions, names
