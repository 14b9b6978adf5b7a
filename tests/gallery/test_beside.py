"""Rows beside the features: whatever is written, cut off or damaged, what is read is what was written, or nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andornot.gallery import feature_store
from andornot.gallery.beside import DAMAGED, MISSING, WHOLE, Beside, BesideWriter, Kind

KIND = Kind("things", 6)
ROWS = 12


@pytest.fixture(autouse=True)
def small_files(monkeypatch) -> None:
    monkeypatch.setattr(feature_store, "ROWS_PER_FILE", 5)


def crc_of(row: int) -> int:
    return 1000 + row


def content_of(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(KIND.size)


def new_writer(folder: Path, owned: tuple[str, ...] = (), claimed: list[str] | None = None) -> BesideWriter:
    names = [] if claimed is None else claimed
    return BesideWriter(folder, KIND, 1, ROWS, owned, names.append)


def conditions(folder: Path, owned: tuple[str, ...], rows: int = ROWS) -> list[int]:
    beside = Beside(folder, KIND, 1, rows, owned)
    return beside.conditions(np.arange(rows), np.array([crc_of(row) for row in range(rows)])).tolist()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, ROWS - 1), st.integers(0, 2**32)),
        st.tuples(st.just("forget"), st.integers(0, ROWS - 1), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_what_is_read_is_what_a_dictionary_would_have(steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    writer, kept = new_writer(folder), {}
    for step, row, seed in steps:
        if step == "put":
            kept[row] = content_of(seed)
            writer.put(row, kept[row], crc_of(row))
        elif step == "forget":
            kept.pop(row, None)
            writer.forget(row)
        else:
            writer.sync(ROWS)
            writer = new_writer(folder, writer.names)
        assert all(writer.read(row, crc_of(row)) == kept.get(row) for row in range(ROWS))
    writer.sync(ROWS)
    beside = Beside(folder, KIND, 1, ROWS, writer.names)
    assert conditions(folder, writer.names) == [WHOLE if row in kept else MISSING for row in range(ROWS)]
    for rows in (np.arange(ROWS), np.array([7, 3, 3, 11]), np.array([5, 6, 7])):
        found = beside.content(rows)
        assert all(found[place].tobytes() == kept[row] for place, row in enumerate(rows.tolist()) if row in kept)


def test_a_row_belongs_to_its_features_and_to_what_it_depends_on(tmp_path):
    writer = new_writer(tmp_path)
    writer.put(3, content_of(1), crc_of(3))
    writer.sync(ROWS)
    assert writer.read(3, crc_of(3)) == content_of(1)
    assert writer.read(3, crc_of(4)) is None
    other = KIND._replace(depends_on="another basis")
    assert BesideWriter(tmp_path, other, 1, ROWS, writer.names, print).read(3, crc_of(3)) is None


@given(place=st.integers(0, 2**31), bit=st.integers(0, 7), of_seals=st.booleans())
def test_a_flipped_bit_is_noticed_and_harms_one_row(place, bit, of_seals, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    writer = new_writer(folder)
    for row in range(ROWS):
        writer.put(row, content_of(row), crc_of(row))
    writer.sync(ROWS)
    files = sorted(folder.glob("*.seals" if of_seals else "*.bin"))
    file = files[place % len(files)]
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= 1 << bit
    file.write_bytes(content)
    found = conditions(folder, writer.names)
    assert sorted(found) == [WHOLE] * (ROWS - 1) + [DAMAGED]


@pytest.mark.parametrize("ending", ["bin", "seals"])
@pytest.mark.parametrize("kept", [0, 1, 2, None])
def test_rows_that_were_cut_off_are_damaged_and_the_others_whole(ending, kept, tmp_path):
    writer = new_writer(tmp_path)
    for row in range(ROWS):
        writer.put(row, content_of(row), crc_of(row))
    writer.sync(ROWS)
    file = tmp_path / f"things-0002.{ending}"
    if kept is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: kept * (KIND.size if ending == "bin" else 4) + 1])
    left = kept or 0
    assert conditions(tmp_path, writer.names) == [WHOLE] * (5 + left) + [DAMAGED] * (5 - left) + [WHOLE] * 2


def test_what_a_killed_writer_left_behind_the_last_row_is_cut_off(tmp_path):
    writer = new_writer(tmp_path)
    for row in range(ROWS):
        writer.put(row, content_of(row), crc_of(row))
    writer.sync(ROWS)
    again = BesideWriter(tmp_path, KIND, 1, 7, writer.names, print)
    again.sync(7)
    assert (tmp_path / "things-0002.bin").stat().st_size == 2 * KIND.size
    assert conditions(tmp_path, again.names, 7) == [WHOLE] * 7


def test_each_file_is_claimed_before_it_is_begun_and_others_are_left_alone(tmp_path):
    (tmp_path / "things-0001.bin").write_bytes(b"somebody's own")
    assert conditions(tmp_path, ()) == [MISSING] * ROWS

    def claim(name: str) -> None:
        assert not (tmp_path / name).exists(), name

    writer = BesideWriter(tmp_path, KIND, 1, ROWS, (), claim)
    writer.put(6, content_of(6), crc_of(6))
    with pytest.raises(AssertionError, match=r"things-0001\.bin"):
        writer.put(0, content_of(0), crc_of(0))
    assert writer.names == ("things-0002.bin", "things-0002.seals")
    assert (tmp_path / "things-0001.bin").read_bytes() == b"somebody's own"
