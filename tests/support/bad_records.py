"""Inputs with bad records: files of every source that has records, with and without them, and the sentences about them."""

import json
from pathlib import Path
from typing import NamedTuple

from support.pubmed_records import document, listed, part, record

SOUND = 90  # records of a file
HEAD_OF_XML, END_OF_XML = document("RECORDS").decode().split("RECORDS")


class Case(NamedTuple):
    """The sound records of a source, some bad ones with the reason for each, and what stands around them in a file."""

    source: str
    sound: list
    bad: dict
    options: dict
    place: str = "line {}"  # by the number of the record, from 1
    head: str = ""
    tail: str = ""
    between: str = "\n"
    first: int = 1  # the number of the first record

    def write(self, path, places, with_bad=True):
        """Write the file, with bad records after given numbers of good ones. Return the expected lines about them."""
        records, expected, bad = [], [], list(self.bad.items())
        for number, one in enumerate(self.sound):
            records.append(one)
            for place in places if with_bad else ():
                if place == number:
                    text, reason = bad[len(expected) % len(bad)]
                    where = self.place.format(self.first + len(records))
                    expected.append(f"{path}: {where}{reason}" if reason[0] == " " else f"{path}: {where}: {reason}")
                    records.append(text)
        head = self.head.replace("N_ROWS", str(len(records)))
        content = (
            part if isinstance(part, bytes) else part.encode() for part in (head, *between(records, self.between), self.tail)
        )
        Path(path).write_bytes(b"".join(content))
        return expected


def between(records, separator):
    """The records with a separator behind each but the last."""
    for number, one in enumerate(records):
        yield one
        yield separator if number + 1 < len(records) else separator.strip(",")


LABELS = ["sea", "farm", "trade"]


def documents(uri=""):
    """Documents with words and labels, by the keys of JSON lines."""
    for n in range(SOUND):
        labels = [f"{uri}{LABELS[n % 3]}"] + ([f"{uri}law"] if n % 7 == 0 else [])
        yield {"id": f"d{n}", "text": f"word{n % 11} ships {LABELS[n % 3]} corn{n % 5}", "labels": labels}


HEAD = "@relation r\n@attribute a numeric\n@attribute b {u,v}\n@attribute l {x,y}\n@data\n"
CASES = {
    "jsonl": Case(
        "jsonl",
        [json.dumps(one) for one in documents()],
        {
            "{'text': 'a'}": "not JSON: Expecting property name enclosed in double quotes at column 2; expected one object a line",
            '{"id": "x", "text": 1}': "text is a number, but expected a string",
            '{"id": "x", "text": "a", "labels": ["b"], "text": "c"}': (
                "the key 'text' stands twice in an object; expected each key once"
            ),
            b'{"id": "x", "text": "\xff"}': "byte 22 is not UTF-8; save the file as UTF-8",
            '["text"]': "a list, but expected an object with the key text or title",
        },
        {},
    ),
    "csv": Case(
        "csv",
        [f'd{n},"word{n % 11}, ships",{LABELS[n % 3]},{"train" if n % 4 else "test"}' for n in range(SOUND)],
        {
            "x,y": "2 values, but the header names 4 columns",
            'x,"ships"y,sea,train': (
                "text behind the quotation mark that closes a value; double quotation marks that are text, or give --no-quotes"
            ),
            b"x,ships,s\xff,train": "column 'labels': 's\\\\xff' is not UTF-8; save the file as UTF-8",
            "x,ships,sea,a/b": "column 'split': split 'a/b' cannot be used; choose another name, without / and comma and not all",
            "x,ships,s\0,train": "column 'labels': 's\\\\x00' holds a character that cannot be stored; remove it",
        },
        {"text": ("text",), "labels": ("labels",), "id": "id", "split_column": "split"},
        head="id,text,labels,split\n",
        first=2,
    ),
    "tsv of numbers": Case(
        "tsv",
        [f"{n % 7 / 4}\t{n % 3 - 1}\t{LABELS[n % 3]}\t{n % 2}" for n in range(SOUND)],
        {
            "one\t1\tsea\t0": ("column 'a': 'one', but expected a number; name columns with --features, --labels, --id or --text"),
            "1\t\tsea\t0": (
                "column 'b': no number, but every row needs one; fill it in, or take what is missing for 0 (--missing-as-zero)"
            ),
            "1\t1\tsea\t2": "column 'i': 2, but expected 1, 0, True or False (--indicators)",
            "1\t1e99\tsea\t1": "column 'b': 1e+99, but expected a finite number that float32 can hold",
            "1\t1\tsea": "3 values, but the header names 4 columns",
        },
        {"features": ("a", "b"), "labels": ("l",), "indicators": ("i",)},
        head="a\tb\tl\ti\n",
        first=2,
    ),
    "svmlight": Case(
        "svmlight",
        [f"{n % 3},{n % 5 + 3} {n % 4 + 1}:{n % 7 + 1} 9:1" if n % 9 else "# a comment" for n in range(SOUND)],
        {
            "1 0:1": "index 0, but indices start at 1 (use --zero-based)",
            "1.5 2:1": (
                "label 1.5, but labels are whole numbers, which name classes; what this file has to predict is a quantity: make "
                "classes of it"
            ),
            "7 1:1 99:x": "'99:x', but expected index:value",
            "0.5 99:1 2:1": "index 2 after 99; sort the indices and remove duplicates",
        },
        {},
    ),
    "xmc": Case(
        "xmc",
        [f"{n % 3},{n % 5 + 3} {n % 4}:{n % 7 + 1} 8:1" for n in range(SOUND)],
        {
            "9 0:1": "label 9, but expected 0 to 7, as line 1 says",
            "1 0:1 12:1": "feature 12, but expected 0 to 8, as line 1 says",
            "1 -1:1": "index -1, but indices are not negative",
        },
        {},
        head="N_ROWS 9 8\n",
        first=2,
    ),
    "arff": Case(
        "arff",
        [f"{n % 7 / 4},{'uv'[n % 2]},{'xy'[n % 3 % 2]}" if 20 < n < 50 else "% a comment" for n in range(SOUND)],
        {
            "1,w,x": "attribute 'b': 'w', but expected one of u, v",
            "1,u": "'1,u', but expected 3 values with commas between; quote values with blanks",
            "?,u,x": (
                "attribute 'a': no number, but every row needs one; fill it in, or take what is missing for 0 (--missing-as-zero)"
            ),
            "q,u,x": "attribute 'a': 'q', but expected a number",
        },
        {"labels": ("l",)},
        head=HEAD,
        first=6,
    ),
    "pubmed": Case(
        "pubmed",
        [record(n + 1, abstract=part(f"corn{n % 5} ships")) for n in range(SOUND)],
        {
            record("x", mesh=""): " (PMID 'x'): PMID 'x'; expected a number from 1 to 1,099,511,627,775",
            record(500, mesh=listed("<MeshHeading></MeshHeading>")): " (PMID '500'): a <MeshHeading> without <DescriptorName>",
        },
        {},
        place="record {}",
        head=HEAD_OF_XML,
        tail=END_OF_XML,
    ),
    "annif": Case(
        "annif",
        [json.dumps({"text": one["text"], "subjects": [{"uri": each} for each in one["labels"]]}) for one in documents("http://")],
        {
            '{"text": "a", "subjects": [{}]}': 'a subject must be {"uri": …} or {"label": …}',
            '{"text": "a", "text": "b"}': "the key 'text' stands twice in an object; expected each key once",
            '{"text": ["a"]}': "text must be a string",
        },
        {},
    ),
    "annif of csv": Case(
        "annif",
        [f'"{one["text"]}",{" ".join(one["labels"])}' for one in documents("http://")],
        {
            "ships": "1 values, but the header names 2 columns",
            b"ships\xff,http://sea": "a value is not UTF-8; save the file as UTF-8",
        },
        {},
        head="text,subject_uris\n",
        first=2,
    ),
    "bioasq": Case(
        "bioasq",
        [json.dumps({"pmid": one["id"], "title": one["text"], "meshMajor": one["labels"]}) for one in documents()],
        {
            '{"title": "a", "meshMajor": ["sea"]}': "no pmid; expected the number of the article",
            '{"pmid": 1, "title": ["a"], "meshMajor": ["sea"]}': "title is a list, but expected a string",
        },
        {},
        place="article {}",
        head='{"articles": [',
        tail="]}",
        between=",\n",
    ),
}
