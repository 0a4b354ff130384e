"""What `--candidates-out` writes is read again as it was."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overstory.files.candidates import read_candidates, write_candidates

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("name", ["found.csv", "found.csv.gz"])
@given(candidates=st.lists(TEXT.filter(bool), min_size=1, unique=True))
@example(
    candidates=["a,b", 'say "hi"', '"quoted"', " two spaces  ", "\ttab", "two\nlines", "one\rreturn", " ", "'", "=1+1"]
)
@example(candidates=["\ufeffmarked", "plain"])
def test_candidates_written_as_csv_are_read_again(name: str, candidates: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        write_candidates(path, candidates)
        assert read_candidates(path) == candidates


@pytest.mark.parametrize("name", ["found.txt", "found", "found.txt.gz"])
def test_candidates_are_written_one_a_line_elsewhere(tmp_path: Path, name: str) -> None:
    candidates = ["a,b", 'say "hi"', '"quoted"', " two spaces  "]
    write_candidates(tmp_path / name, candidates)
    assert read_candidates(tmp_path / name) == candidates
