"""`andornot index` and `andornot search`, as typed in a shell."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from galleries import photos, save_image, tiny_model, tiny_recipe
from PIL import Image
from typed import the_line

from andornot.commands import index
from andornot.commands.main import main
from andornot.gallery import Gallery, writing
from andornot.gallery.hits import percent, weak_from
from andornot.gallery.storage import Storage
from andornot.gallery.storage import writing as lock_held


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("models") / "model"
    tiny_model().save(folder)
    return str(folder)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder to work in, with photos."""
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos" / "cat", 5)
    photos(tmp_path / "photos" / "dog", 5, start=5)
    return tmp_path


@pytest.fixture
def indexed(here, model, capsys) -> Path:
    assert main(["index", "photos", "--gallery", "g", "--model", model]) == 0
    capsys.readouterr()
    return here


def test_index_says_what_it_did(here, model, capsys):
    (here / "photos" / "empty.jpg").write_bytes(b"")
    assert main(["index", "photos", "--gallery", "g", "--model", model]) == 0
    assert capsys.readouterr().out == (
        f"  cannot be read: {here}/photos/empty.jpg: 0 bytes\n"
        "10 added, 0 changed, 0 moved, 0 removed, 0 unchanged, 1 broken: 10 images are in g\n"
        "Next: andornot serve --gallery g --open\n"
    )
    (here / "photos" / "cat" / "000.png").rename(here / "photos" / "dog" / "000.png")
    assert main(["index", "--gallery", "g", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == {
        "gallery": "g",
        "images": 10,
        "added": 0,
        "changed": 0,
        "moved": 1,
        "removed": 0,
        "unchanged": 9,
        "broken": {f"{here}/photos/empty.jpg": "0 bytes"},
        "skipped": {},
    }


def test_index_makes_a_model_of_its_own_and_offers_to_adapt_it(here, capsys, monkeypatch):
    monkeypatch.setattr(writing, "load_recipe", lambda _: tiny_recipe())
    assert main(["index", "photos/cat", "--gallery", "g"]) == 0
    first = Gallery.open("g").model.id
    photos(here / "photos" / "many", 60, start=20)
    capsys.readouterr()
    assert main(["index", "photos", "--gallery", "g"]) == 0
    assert "andornot index --gallery g --recalibrate" in capsys.readouterr().out
    assert Gallery.open("g").model.id == first
    assert main(["index", "--gallery", "g", "--recalibrate"]) == 0
    assert "--recalibrate" not in capsys.readouterr().out
    assert Gallery.open("g").model.id != first


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("formula", ["000.png & ~001.png", "000.png and not 001.png", "like(000.png, 001.png)"])
def test_search_prints_matches_in_percent_paths_and_ids(formula, capsys):
    assert main(["search", formula, "--gallery", "g", "--top", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    hits = Gallery.open("g").search(formula, top=8)
    expected = [f"{percent(hit.truth):>5}  {hit.path}  #{hit.id}" for hit in hits]
    expected.insert(weak_from(hits), "       weak matches below: may be chance matches")
    assert lines == expected


@pytest.mark.usefixtures("indexed")
def test_search_leaves_out_what_is_less_true_than_asked_for(capsys):
    hits = Gallery.open("g").search("000.png and not 001.png")
    least = sorted(hit.truth for hit in hits)[4]
    asked = ["search", "000.png and not 001.png", "--gallery", "g", "--json"]
    assert main([*asked, "--min-truth", str(least)]) == 0
    kept = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["id"] for hit in kept] == [hit.id for hit in hits if hit.truth >= least]
    assert main([*asked[:-1], "--min-truth", "1"]) == 0
    assert capsys.readouterr().out == "no hits with a truth of at least 1\n"
    assert main([*asked, "--min-truth", "1.5"]) == 2
    assert capsys.readouterr().err == "andornot: min_truth must be a number from 0 to 1, got 1.5\n"


def test_a_file_that_index_could_not_read_is_named_as_such(indexed, capsys):
    whole = (indexed / "photos" / "cat" / "001.png").read_bytes()
    (indexed / "photos" / "cat" / "truncated.png").write_bytes(whole[:200])
    (indexed / "photos" / "clip.mov").write_bytes(b"\0\0\0\x18ftypqt  " + bytes(50))
    assert main(["index", "--gallery", "g"]) == 0
    told = capsys.readouterr().out
    assert "  1 video skipped: not supported\n" in told
    for name, expected in (
        ("truncated.png", 'photos/cat/truncated.png" cannot be read as an image: '),
        ("cat/truncated.png", "photos/cat/truncated.png: "),
        ("photos/cat/truncated.png", "photos/cat/truncated.png: "),
        ("clip.mov", "photos/clip.mov: a video, which is not supported"),
    ):
        assert main(["search", name, "--gallery", "g"]) == 2
        error = capsys.readouterr().err
        assert expected in error
        assert "did you mean" not in error


@pytest.mark.usefixtures("indexed")
def test_search_prints_json_with_reasons(capsys):
    options = ["--score", "containment", "--logic", "product", "--semantics", "independent", "--why", "--json"]
    assert main(["search", "(1 | 2) - 8", "--gallery", "g", "--top", "2", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["formula"], answer["score"]) == ("(1 | 2) - 8", "containment")
    assert set(answer["hits"][0]) == {
        *("path", "distance", "id", "why", "taken", "taken_from"),
        *("truth", "strength", "is_weak", "boxes", "words", "terms"),
    }
    assert set(answer["hits"][0]["why"][0]) == {"feature", "contribution", "shown_by", "name"}


@pytest.mark.usefixtures("indexed")
def test_search_says_why_in_words_and_of_a_condition_each_term(capsys):
    """The features of this gallery have no names, so they are only in the JSON."""
    assert main(["search", "1", "--gallery", "g", "--top", "1", "--why"]) == 0
    *_, hit = capsys.readouterr().out.splitlines()
    assert hit.split()[-1].startswith("#")
    assert main(["search", "1 and 2", "--gallery", "g", "--top", "1", "--why"]) == 0
    *_, hit, reason = capsys.readouterr().out.splitlines()
    assert hit.split()[-1].startswith("#")
    assert re.fullmatch(r"       1 \d+ %, 2 \d+ %", reason)


@pytest.mark.usefixtures("indexed")
def test_search_filters(capsys):
    for options, count in (
        (["--label", "dog"], 5),
        (["--folder", "photos/cat"], 4),
        (["--after", "2000", "--before", "2100-01-01", "--file-dates"], 9),
        (["--include-queries"], 10),
    ):
        assert main(["search", "000.png", "--gallery", "g", "--top", "50", *options]) == 0
        found = [line for line in capsys.readouterr().out.splitlines() if " %  " in line]
        assert len(found) == count
    assert main(["search", "000.png", "--gallery", "g", "--after", "2090", "--file-dates"]) == 0
    assert capsys.readouterr().out == "no hits\n"
    assert main(["search", "000.png", "--gallery", "g", "--after", "2000"]) == 0
    assert capsys.readouterr().out.startswith("no hits; --file-dates uses the file date")


@pytest.mark.usefixtures("indexed")
def test_a_formula_without_signs_needs_no_quotes_of_the_shell(capsys):
    assert main(["search", "000.png", "and", "not", "001.png", "--gallery", "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formula"] == "000.png and not 001.png"


@pytest.mark.usefixtures("indexed")
def test_search_says_what_it_understood(capsys):
    assert main(["search", "000.png", "without", "001.png", "except", "3", "--gallery", "g"]) == 0
    understood, *hits = capsys.readouterr().out.splitlines()
    assert understood == "understood: 000.png and not 001.png except 3"
    assert main(["search", "000.png and not 001.png", "--gallery", "g", "--exclude", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == hits
    assert main(["search", "000.png", "with", "2", "--gallery", "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["understood"] == "000.png and 2"


@pytest.mark.usefixtures("here")
def test_one_image_is_counted_as_one(model, capsys):
    assert main(["index", "photos/dog/007.png", "--gallery", "g", "--model", model]) == 0
    assert ": 1 image is in g\n" in capsys.readouterr().out


def test_search_draws_a_sheet(indexed):
    save_image(indexed / "out side.png", 77)
    formula = '(000.png | "./out side.png") - dog/007.png'
    assert main(["search", formula, "--gallery", "g", "--top", "7", "--sheet", "hits.png"]) == 0
    with Image.open("hits.png") as sheet:
        assert sheet.width == 16 + 5 * 196
        colours = sheet.convert("RGB").getcolors(10**6)
    assert colours is not None
    assert len(colours) > 1000, "there are images on it"
    shutil.rmtree(indexed / "photos" / "dog")
    assert main(["search", formula, "--gallery", "g", "--sheet", "hits.jpg"]) == 0, "files that are gone are grey tiles"


@pytest.mark.usefixtures("indexed")
def test_search_opens_copies_links_and_lists_hits(capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    hits = Gallery.open("g").search("000.png", top=3)
    asked = ["search", "000.png", "--gallery", "g", "--top", "3"]
    assert main([*asked, "--open", "--csv", "hits.csv", "--copy-to", "new/copies", "--link-to", "links"]) == 0
    assert capsys.readouterr().out.startswith("3 files copied to new/copies\n3 files linked to links\n")
    with Image.open(opened[0].removeprefix("file://")) as sheet:
        assert sheet.width == 16 + 5 * 196
    rows = list(csv.DictReader(Path("hits.csv").read_text(encoding="utf-8").splitlines()))
    assert [(int(row["id"]), row["path"]) for row in rows] == [(hit.id, hit.path) for hit in hits]
    assert {"rank", "percent", "words"} <= rows[0].keys()
    for folder in (Path("new/copies"), Path("links")):
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == [f"{n:04}-{Path(hit.path).name}" for n, hit in enumerate(hits, 1)]
        assert [file.read_bytes() for file in files] == [Path(hit.path).read_bytes() for hit in hits]
        assert all(file.is_symlink() == (folder.name == "links") for file in files)
    for option, folder in (("--copy-to", "new/copies"), ("--link-to", "links")):
        assert main([*asked, option, folder]) == 2
        assert the_line(capsys).endswith("exists: choose another folder")


def test_duplicates_are_listed_in_groups_and_nothing_is_deleted(indexed, capsys):
    original = indexed / "photos" / "cat" / "001.png"
    shutil.copy(original, indexed / "photos" / "dog" / "copy.png")
    with Image.open(original) as image:
        image.resize((image.width + 1, image.height)).save(indexed / "photos" / "dog" / "resized.png")
    assert main(["index", "--gallery", "g"]) == 0
    capsys.readouterr()
    assert main(["duplicates", "--gallery", "g", "--csv", "copies.csv"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    expected = ["3 images", f"  {original}  #2"]
    expected += [
        f"  {indexed}/photos/dog/copy.png  #11  exact copy",
        f"  {indexed}/photos/dog/resized.png  #12  near copy",
    ]
    assert lines[:4] == expected
    assert last.endswith("nothing was deleted")
    rows = list(csv.DictReader(Path("copies.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["group"], row["copy"], row["id"]) for row in rows[:3]] == [
        ("1", "", "2"),
        ("1", "exact", "11"),
        ("1", "near", "12"),
    ]
    assert main(["duplicates", "--gallery", "g", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["groups"][0]
    assert [image["size"] for image in first] == [Path(image["path"]).stat().st_size for image in first]
    assert len(list((indexed / "photos").rglob("*.png"))) == 12


def test_odd_names_survive_the_shell(here, model):
    """A real shell, and names that it would take apart."""
    for seed, name in enumerate(["a & b.png", "it's.png", "ünï 図.png"]):
        save_image(here / "photos" / name, 50 + seed)
    assert main(["index", "photos", "--gallery", "g", "--model", model]) == 0
    formula = """ '"a & b.png" | "it'"'"'s.png" - "ünï 図.png"' """
    command = f"{sys.executable} -m andornot search {formula} --gallery g --json --top 20"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["hits"]) == 10


MISTAKES = {
    "no gallery": (["search", "a.png", "--gallery", "nothing"], "andornot index FOLDER --gallery"),
    "an empty folder": (["index", "empty", "--gallery", "new"], "has no image in it; file names that end in"),
    "no folder": (["index", "nowhere", "--gallery", "new"], "is not a folder"),
    "no folder named": (["index", "--gallery", "new"], "there is no gallery in new yet: give the folders of its"),
    "another model": (["index", "photos", "--gallery", "g", "--model", "other"], "was made with model"),
    "no such label": (["search", "1", "--gallery", "g", "--label", "dgo"], 'no image has the label "dgo"; did you'),
    "no date": (["search", "1", "--gallery", "g", "--after", "May"], '"May" is no date; write it as 2024'),
    "no sheet": (["search", "1", "--gallery", "g", "--sheet", "a.doc"], "must end in .png, .jpg"),
    "nothing to repair": (["index", "photos", "--gallery", "new", "--repair"], "there is no gallery in"),
    "a broken image": (["search", "./broken.png", "--gallery", "g"], "broken.png: not an image of a known format"),
    "no top": (["search", "1", "--gallery", "g", "--top", "0"], "top must be at least 1, got 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, indexed, capsys):
    (indexed / "empty").mkdir()
    (indexed / "broken.png").write_bytes(b"no")
    tiny_model(seed=1).save(indexed / "other")
    arguments, message = MISTAKES[mistake]
    assert main(arguments) == 2
    assert message in the_line(capsys)
    assert not (indexed / "new").exists()


@pytest.mark.usefixtures("indexed")
def test_a_wrong_formula_points_at_the_spot(capsys):
    assert main(["search", "000.png & ~00l.png", "--gallery", "g"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        'andornot: unknown name "00l.png"; did you mean "009.png", "008.png", "007.png"?\n'
        "  000.png & ~00l.png\n"
        "             ^\n"
    )


def test_two_at_once_the_second_says_who_holds_the_lock(indexed, capsys):
    with lock_held(Storage(indexed / "g")):
        assert main(["index", "photos", "--gallery", "g"]) == 2
        assert f"is being written by process {os.getpid()} on " in the_line(capsys)
        assert main(["search", "1", "--gallery", "g"]) == 0, "readers need no lock"


def test_an_unmounted_disk_is_one_line_and_prune_insists(indexed, capsys):
    shutil.rmtree(indexed / "photos")
    assert main(["index", "--gallery", "g"]) == 2
    assert "is a disk not mounted? --prune drops them" in the_line(capsys)
    assert main(["index", "--gallery", "g", "--prune"]) == 0
    assert capsys.readouterr().out.endswith("10 removed, 0 unchanged, 0 broken: 0 images are in g\n")


def test_repair_says_what_it_did_and_goes_on(indexed, capsys):
    file = max((indexed / "g" / "images.lance" / "data").iterdir(), key=lambda file: file.stat().st_size)
    activations = Gallery.open(indexed / "g")._table.activations(np.array([5]))[0].tobytes()
    content = file.read_bytes()
    at = content.index(activations)
    file.write_bytes(content[:at] + b"damaged" + content[at + 7 :])
    assert main(["search", "5", "--gallery", "g"]) == 2
    assert "andornot index --repair" in the_line(capsys)
    assert main(["index", "--gallery", "g", "--repair"]) == 0
    assert capsys.readouterr().out == (
        "repair: 1 images were damaged: 1 are encoded again, "
        "0 dropped because their files are gone or broken\n"
        "0 added, 0 changed, 0 moved, 0 removed, 10 unchanged, 0 broken: 10 images are in g\n"
    )
    assert main(["search", "5", "--gallery", "g"]) == 0


def stop() -> None:
    """Ctrl-C. Not by a signal: a shell's background job ignores that one."""
    raise KeyboardInterrupt


def test_watch_keeps_up_until_it_is_stopped(indexed, capsys, monkeypatch):
    new = indexed / "photos" / "new.png"
    happens = iter([lambda: save_image(new, 70), lambda: None, new.unlink])

    def sleep(_: float) -> None:
        next(happens, stop)()

    monkeypatch.setattr(index.time, "sleep", sleep)
    assert main(["index", "--gallery", "g", "--watch"]) == 130
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "0 added, 0 changed, 0 moved, 0 removed, 10 unchanged, 0 broken: 10 images are in g",
        "1 added, 0 changed, 0 moved, 0 removed, 10 unchanged, 0 broken: 11 images are in g",
        "0 added, 0 changed, 0 moved, 1 removed, 10 unchanged, 0 broken: 10 images are in g",
    ]
    assert captured.err == "andornot: stopped\n"


def test_watch_lets_another_writer_finish(indexed, capsys, monkeypatch):
    lock = lock_held(Storage(indexed / "g"))
    new = indexed / "photos" / "new.png"
    happens = iter([lambda: (save_image(new, 70), lock.__enter__()), lambda: lock.__exit__(None, None, None)])

    def sleep(_: float) -> None:
        next(happens, stop)()

    monkeypatch.setattr(index.time, "sleep", sleep)
    assert main(["index", "--gallery", "g", "--watch"]) == 130
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(Gallery.open("g")) == 11


def test_watch_waits_for_a_folder_that_is_away(indexed, capsys, monkeypatch):
    away, back = indexed / "away", indexed / "photos"
    happens = iter(
        [
            lambda: back.rename(away),
            lambda: None,
            lambda: (away.rename(back), save_image(back / "new.png", 70)),
            lambda: back.rename(away),
        ]
    )

    def sleep(_: float) -> None:
        next(happens, stop)()

    monkeypatch.setattr(index.time, "sleep", sleep)
    assert main(["index", "--gallery", "g", "--watch"]) == 130
    captured = capsys.readouterr()
    assert [line.split(":")[0] for line in captured.out.splitlines()] == [
        "0 added, 0 changed, 0 moved, 0 removed, 10 unchanged, 0 broken",
        "1 added, 0 changed, 0 moved, 0 removed, 10 unchanged, 0 broken",
    ]
    lines = captured.err.splitlines()
    assert [line.split(", and")[0] for line in lines[:2]] == 2 * [f"andornot: {back} is not there"]
    assert "10 images from it" in lines[0]
    assert "11 images from it" in lines[1]
    assert lines[2:] == ["andornot: stopped"]
    away.rename(back)
    assert len(Gallery.open("g")) == 11


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_photos_are_indexed_without_a_model(capsys):
    """The default: EfficientNet-Lite0, calibrated on the folder."""
    assert main(["index", "photos", "--gallery", "g"]) == 0
    assert Gallery.open("g").model.num_features == 1280
    capsys.readouterr()
    assert main(["search", "000.png", "--gallery", "g", "--top", "1", "--include-queries"]) == 0
    assert "photos/cat/000.png  #1" in capsys.readouterr().out


def test_a_device_that_is_not_there_leaves_nothing_behind(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    gallery = tmp_path / "g"
    assert main(["index", str(tmp_path / "images"), "--gallery", str(gallery), "--device", "cuda:99"]) == 2
    assert capsys.readouterr().err.startswith('andornot: the device "cuda:99" cannot be used: ')
    assert not gallery.exists()


# --- define and describe --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("indexed")
def test_define_names_lists_and_forgets(capsys):
    assert main(["define", "sunset", "like(000.png, 001.png)", "--gallery", "g"]) == 0
    assert capsys.readouterr().out == "sunset = like(000.png, 001.png)\n"
    assert main(["search", "sunset - 002.png", "--gallery", "g", "--top", "1"]) == 0
    assert main(["define", "both", "sunset and 005.png", "--gallery", "g"]) == 0
    capsys.readouterr()
    assert main(["define", "--gallery", "g"]) == 0
    assert capsys.readouterr().out == "sunset = like(000.png, 001.png)\nboth = sunset and 005.png\n"
    assert main(["define", "--rename", "sunset", "my evening", "--gallery", "g"]) == 0
    assert capsys.readouterr().out == 'my evening = like(000.png, 001.png)\nboth = "my evening" and 005.png\n'
    assert main(["define", "--rename", "My-Evening", "sunset", "--gallery", "g"]) == 0
    capsys.readouterr()
    assert main(["define", "--remove", "both", "--gallery", "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"definitions": {"sunset": "like(000.png, 001.png)"}, "hides": ""}
    assert main(["define", "--remove", "Sunset", "--gallery", "g"]) == 0
    assert capsys.readouterr().out == "Sunset removed\n"
    assert main(["define", "--gallery", "g"]) == 0
    assert capsys.readouterr().out == "no definitions\n"


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["define", "x"], "takes NAME and FORMULA"),
        (["define", "x", "000.png", "--remove", "y"], "takes NAME and FORMULA"),
        (["define", "--remove", "x"], 'unknown definition "x"'),
        (["define", "--rename", "x", "y"], 'unknown definition "x"'),
        (["define", "--rename", "x", "y", "--remove", "x"], "takes NAME and FORMULA"),
        (["define", "17", "000.png"], "number of an image"),
        (["describe", "000.png"], "conv5 has no words: it has no ImageNet classifier"),
    ],
)
def test_a_mistake_of_define_and_describe_is_one_clear_line(typed, said, capsys):
    assert main([*typed, "--gallery", "g"]) == 2
    assert said in the_line(capsys)


def test_describe_says_what_images_show_and_nothing_of_what_shows_nothing(here, capsys):
    Image.new("RGB", (64, 64), "white").save(here / "white.png")
    assert main(["describe", "white.png", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out).items()
    assert found[0] == "white.png"
    assert all(0 < noun["probability"] <= 1 for noun in found[1])
    assert main(["describe", "nope.png"]) == 2
    assert the_line(capsys) == "nope.png: no such file"
