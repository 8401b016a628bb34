from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from megae.io import atomic
from megae.io.atomic import atomic_path


def test_new_file_appears_whole_with_usual_mode(tmp_path):
    target = tmp_path / "a.csv"
    with atomic_path(target) as tmp:
        assert tmp.parent == tmp_path
        assert tmp.suffix == ".csv"
        tmp.write_text("x")
        assert not target.exists()
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert target.read_text() == "x"
    assert target.stat().st_mode == plain.stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "plain"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_failure_leaves_the_old_file_and_no_litter(tmp_path, error):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def write() -> None:
        with atomic_path(target) as tmp:
            tmp.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_mode_of_existing_file_is_kept_and_link_is_followed(tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("old")
    os.chmod(real, 0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    with atomic_path(link) as tmp:
        tmp.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there_is_named(tmp_path):
    missing = tmp_path / "nowhere" / "a.txt"
    with pytest.raises(FileNotFoundError, match="the folder does not exist") as told, atomic_path(missing):
        pass
    assert told.value.filename == str(missing.parent)


def test_folder_and_device_are_refused(tmp_path):
    with pytest.raises(OSError, match="folder"), atomic_path(tmp_path):
        pass
    with pytest.raises(OSError, match="regular"), atomic_path(os.devnull):
        pass
    assert Path(os.devnull).is_char_device()


def test_writing_past_a_real_file_size_limit_loses_nothing(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    code = textwrap.dedent(
        """
        import resource, signal, sys
        from megae.io.atomic import atomic_path
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with atomic_path(sys.argv[1]) as tmp:
                tmp.write_bytes(b"x" * 5000)
        except OSError as error:
            sys.exit(7)
        """
    )
    env = {**os.environ, "PYTHONPATH": str(Path(atomic.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code, str(target)], check=False, env=env)
    assert done.returncode == 7
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
