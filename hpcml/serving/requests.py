"""Questions of clients: forms and JSON become questions, or a refusal with status and sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from hpcml.conversion.annif import document
from hpcml.conversion.vocabulary import Field
from hpcml.serving.suggest import Question

LIMIT = 10  # headings, where none is asked for
MOST_PARAMETERS = 100
MOST_WORDS = 100
MOST_TEXTS = 1000  # of one request
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
METADATA = "metadata_"  # before the names of fields in a form
PASSED_OVER = ("project", "language")  # what Annif's clients say, and a server of one model need not know


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


def json_of(body: bytes) -> object:
    """The value of a JSON text. Raises Refused."""
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON in UTF-8") from None


def whole(parameters: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 0 on; a larger one than `most` is `most`. Raises Refused."""
    text = parameters.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise Refused(400, f"{name}: {text[:60]!r}, but expected a whole number from 0 on")
    return min(int(text), most)


def share(parameters: Mapping[str, str], name: str) -> float:
    """A parameter that is a number from 0 to 1, or 0 without it. Raises Refused."""
    try:
        value = float(parameters.get(name, "0")[:60])
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise Refused(400, f"{name}: {parameters[name][:60]!r}, but expected a number from 0 to 1")
    return value


def values_of(fields: Sequence[Field], text: str, metadata: Mapping[str, str]) -> list[list[str]]:
    """The values of a text's fields: text, and what metadata says of others."""
    content = {**metadata, "text": text}
    return [[content[field.name]] if content.get(field.name) else [] for field in fields]


def question_of_form(parameters: Mapping[str, str], fields: Sequence[Field], only_given: bool) -> Question:
    """The question of a form: text, metadata_NAME, limit, threshold, words. Raises Refused."""
    if "text" not in parameters:
        raise Refused(400, "no parameter text; expected the text to find headings for")
    known = ("text", "limit", "threshold", "words", *PASSED_OVER)
    for name in parameters:
        if name not in known and not name.startswith(METADATA):
            raise Refused(400, f"{name[:60]}: no such parameter; known: {', '.join(known)}, {METADATA}NAME")
    metadata = {name.removeprefix(METADATA): value for name, value in parameters.items() if name.startswith(METADATA)}
    return Question(values_of(fields, parameters["text"], metadata), *_wishes(parameters), only_given)


def _wishes(parameters: Mapping[str, str]) -> tuple[int, float, int]:
    """How many headings, from which probability on, with how many words. Raises Refused."""
    limit = whole(parameters, "limit", LIMIT, 2**31 - 1)
    return limit, share(parameters, "threshold"), whole(parameters, "words", 0, MOST_WORDS)


def questions_of_json(
    body: bytes, query: Mapping[str, str], fields: Sequence[Field], only_given: bool
) -> tuple[list[Question], list[str]]:
    """The questions of {"documents": [...]} or a list of texts and documents, and their ids ("" for
    none). Limit, threshold and words are in the query. Raises Refused.
    """
    known = ("limit", "threshold", "words", *PASSED_OVER)
    for name in query:
        if name not in known:
            raise Refused(400, f"{name[:60]}: no such parameter; known: {', '.join(known)}")
    wishes = _wishes(query)
    found: Any = json_of(body)
    if isinstance(found, dict):
        found = found.get("documents")
    if not isinstance(found, list):
        raise Refused(400, 'expected {"documents": [{"text": …}, …]}, or a list of texts')
    if len(found) > MOST_TEXTS:
        raise Refused(413, f"{len(found):,} texts, but at most {MOST_TEXTS:,} in one request")
    questions, names = [], []
    for number, each in enumerate(found):
        try:
            said = document({"text": each} if isinstance(each, str) else each)
        except ValueError as error:
            raise Refused(400, f"document {number} (from 0): {error}") from None
        questions.append(Question(values_of(fields, said.text, said.metadata), *wishes, only_given))
        names.append(said.name)
    return questions, names
