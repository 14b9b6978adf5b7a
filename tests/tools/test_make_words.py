"""The table of nouns, from the files of WordNet."""

import runpy
from pathlib import Path

import pytest

from andornot.concepts import wordnet_nouns

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "src" / "andornot" / "words" / "wordnet"
WORDNET = Path("/usr/share/wordnet")

DATA = """\
  1 This is a licence, which is indented.
00000001 03 n 01 thing 0 002 ~ 00000002 n 0000 ~ 00000004 n 0000 | whatever there is
00000002 05 n 02 beast 0 wild_beast 0 003 @ 00000001 n 0000 ~ 00000003 n 0000 ~ 00000005 n 0000 | lives (or did); "x"
00000003 05 n 01 Hound 0 001 @ 00000002 n 0000 | a beast that barks at the moon all night
00000004 06 n 01 hound 0 001 @ 00000001 n 0000 | a toy with wheels
00000005 05 n 01 whelp 0 001 @ 00000002 n 0000 | a young beast that barks at the moon
"""
INDEX = """\
  1 This is a licence, which is indented.
beast n 1 1 ~ 1 1 00000002
hound n 2 1 @ 2 1 00000004 00000003
thing n 1 1 ~ 1 1 00000001
whelp n 1 1 @ 1 1 00000005
wild_beast n 1 1 ~ 1 0 00000002
"""
COUNTS = """\
beast%1:05:00:: 1 12
hound%1:06:00:: 1 3
hound%2:33:00:: 2 5
thing%1:03:00:: 1 40
whelp%1:05:00:: 1 2
"""


@pytest.fixture
def made(tmp_path, monkeypatch, capsys) -> Path:
    """The table of a WordNet of five meanings, one of which is a class."""
    (tmp_path / "data.noun").write_text(DATA)
    (tmp_path / "index.noun").write_text(INDEX)
    (tmp_path / "cntlist.rev").write_text(COUNTS)
    (tmp_path / "noun.exc").write_text("beastes beast\nwhelpen whelp\n")
    (tmp_path / "ids.txt").write_text("n00000003\n")
    run(tmp_path, tmp_path / "ids.txt", tmp_path / "table", monkeypatch)
    assert "nouns.tsv: 3 lines" in capsys.readouterr().out
    return tmp_path / "table"


def run(wordnet: Path, ids: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = runpy.run_path(str(ROOT / "tools" / "make_words.py"))["main"]
    main.__globals__["TABLE"] = table
    monkeypatch.setattr("sys.argv", ["make_words.py", str(wordnet), str(ids)])
    main()


def test_what_has_classes_is_in_the_table_with_its_kinds_senses_and_counts(made):
    assert (made / "nouns.tsv").read_text().splitlines() == [
        "00000001\t\t\t5\tthing.1*40\twhatever there is",
        "00000002\t\t00000001\t3\tbeast.1*12 wild_beast.1\tlives",
        "00000003\t0\t00000002\t1\tHound.2\ta beast that barks at the moon all night",
    ]


def test_irregular_forms_of_known_nouns_are_kept(made):
    assert (made / "irregular.tsv").read_text().splitlines() == ["beastes\tbeast", "people\tperson"]


def test_nouns_without_classes_have_the_nearest(made):
    assert (made / "near.tsv").read_text().splitlines() == ["whelp\tHound beast"]


@pytest.mark.slow
@pytest.mark.skipif(not (WORDNET / "data.noun").exists(), reason="needs WordNet 3.0: apt-get install wordnet-base")
def test_the_table_of_the_package_is_what_the_script_makes(tmp_path, monkeypatch):
    by_class = {synset.own_class: synset.offset for synset in wordnet_nouns().synsets}
    (tmp_path / "ids.txt").write_text("\n".join(f"n{by_class[number]}" for number in range(1000)))
    run(WORDNET, tmp_path / "ids.txt", tmp_path / "table", monkeypatch)
    for file in (tmp_path / "table").iterdir():
        assert file.read_text() == (TABLE / file.name).read_text()
