"""Input files of every source with records, with and without bad records, and the locations of the bad ones."""

import json
from pathlib import Path
from typing import NamedTuple

from support.pubmed_records import document, listed, part, record

SOUND = 90  # records per file
HEAD_OF_XML, END_OF_XML = document("RECORDS").decode().split("RECORDS")


class Case(NamedTuple):
    source: str
    sound: list
    bad: list
    options: dict
    place: str = "line {}"  # by the number of the record, from 1
    head: str = ""
    tail: str = ""
    between: str = "\n"
    first: int = 1  # the number of the first record

    def write(self, path, places, with_bad=True):
        records, expected = [], []
        for number, one in enumerate(self.sound):
            records.append(one)
            for place in places if with_bad else ():
                if place == number:
                    expected.append(f"{path}: {self.place.format(self.first + len(records))}")
                    records.append(self.bad[len(expected) % len(self.bad)])
        head = self.head.replace("N_ROWS", str(len(records)))
        content = (
            part if isinstance(part, bytes) else part.encode() for part in (head, *between(records, self.between), self.tail)
        )
        Path(path).write_bytes(b"".join(content))
        return expected


def between(records, separator):
    for number, one in enumerate(records):
        yield one
        yield separator if number + 1 < len(records) else separator.strip(",")


LABELS = ["sea", "farm", "trade"]


def documents(uri=""):
    for n in range(SOUND):
        labels = [f"{uri}{LABELS[n % 3]}"] + ([f"{uri}law"] if n % 7 == 0 else [])
        yield {"id": f"d{n}", "text": f"word{n % 11} ships {LABELS[n % 3]} corn{n % 5}", "labels": labels}


HEAD = "@relation r\n@attribute a numeric\n@attribute b {u,v}\n@attribute l {x,y}\n@data\n"
CASES = {
    "jsonl": Case(
        "jsonl",
        [json.dumps(one) for one in documents()],
        [
            "{'text': 'a'}",
            '{"id": "x", "text": 1}',
            '{"id": "x", "text": "a", "labels": ["b"], "text": "c"}',
            b'{"id": "x", "text": "\xff"}',
            '["text"]',
        ],
        {},
    ),
    "csv": Case(
        "csv",
        [f'd{n},"word{n % 11}, ships",{LABELS[n % 3]},{"train" if n % 4 else "test"}' for n in range(SOUND)],
        ["x,y", 'x,"ships"y,sea,train', b"x,ships,s\xff,train", "x,ships,sea,a/b", "x,ships,s\0,train"],
        {"text": ("text",), "labels": ("labels",), "id": "id", "split_column": "split"},
        head="id,text,labels,split\n",
        first=2,
    ),
    "tsv of numbers": Case(
        "tsv",
        [f"{n % 7 / 4}\t{n % 3 - 1}\t{LABELS[n % 3]}\t{n % 2}" for n in range(SOUND)],
        ["one\t1\tsea\t0", "1\t\tsea\t0", "1\t1\tsea\t2", "1\t1e99\tsea\t1", "1\t1\tsea"],
        {"features": ("a", "b"), "labels": ("l",), "indicators": ("i",)},
        head="a\tb\tl\ti\n",
        first=2,
    ),
    "svmlight": Case(
        "svmlight",
        [f"{n % 3},{n % 5 + 3} {n % 4 + 1}:{n % 7 + 1} 9:1" if n % 9 else "# a comment" for n in range(SOUND)],
        ["1 0:1", "1.5 2:1", "7 1:1 99:x", "0.5 99:1 2:1"],
        {},
    ),
    "xmc": Case(
        "xmc",
        [f"{n % 3},{n % 5 + 3} {n % 4}:{n % 7 + 1} 8:1" for n in range(SOUND)],
        ["9 0:1", "1 0:1 12:1", "1 -1:1"],
        {},
        head="N_ROWS 9 8\n",
        first=2,
    ),
    "arff": Case(
        "arff",
        [f"{n % 7 / 4},{'uv'[n % 2]},{'xy'[n % 3 % 2]}" if 20 < n < 50 else "% a comment" for n in range(SOUND)],
        ["1,w,x", "1,u", "?,u,x", "q,u,x"],
        {"labels": ("l",)},
        head=HEAD,
        first=6,
    ),
    "pubmed": Case(
        "pubmed",
        [record(n + 1, abstract=part(f"corn{n % 5} ships")) for n in range(SOUND)],
        [record("x", mesh=""), record(500, mesh=listed("<MeshHeading></MeshHeading>"))],
        {},
        place="record {}",
        head=HEAD_OF_XML,
        tail=END_OF_XML,
    ),
    "annif": Case(
        "annif",
        [json.dumps({"text": one["text"], "subjects": [{"uri": each} for each in one["labels"]]}) for one in documents("http://")],
        ['{"text": "a", "subjects": [{}]}', '{"text": "a", "text": "b"}', '{"text": ["a"]}'],
        {},
    ),
    "annif of csv": Case(
        "annif",
        [f'"{one["text"]}",{" ".join(one["labels"])}' for one in documents("http://")],
        ["ships", b"ships\xff,http://sea"],
        {},
        head="text,subject_uris\n",
        first=2,
    ),
    "bioasq": Case(
        "bioasq",
        [json.dumps({"pmid": one["id"], "title": one["text"], "meshMajor": one["labels"]}) for one in documents()],
        ['{"title": "a", "meshMajor": ["sea"]}', '{"pmid": 1, "title": ["a"], "meshMajor": ["sea"]}'],
        {},
        place="article {}",
        head='{"articles": [',
        tail="]}",
        between=",\n",
    ),
}
