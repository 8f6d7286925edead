"""Files for data that is too large for memory."""

from pathlib import Path

from fairlead.system.spill import SpillFiles


def test_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    spill = SpillFiles(tmp_path / "new", "s")
    spill.write(b"one ")
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".part"]
    spill.write(b"two")
    name = spill.done()
    assert (tmp_path / "new" / name).read_bytes() == b"one two"
    assert (tmp_path / "new" / name).stat().st_mode & 0o777 == 0o600
    spill.write(b"another")
    other = spill.done()
    assert other != name
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([name, other])
