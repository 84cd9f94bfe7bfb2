from pathlib import Path

from heliograph.local.brokers import telling_lines
from heliograph.local.layout import Folder


def broker_that_said(tmp_path: Path, printed: str, logged: str) -> str:
    folder = Folder(tmp_path)
    folder.logs.mkdir()
    folder.output(1).write_text(printed)
    folder.log(1).write_text(logged)
    return telling_lines(folder, 1)


def test_a_broker_that_said_nothing_is_told_so(tmp_path: Path) -> None:
    assert telling_lines(Folder(tmp_path), 1) == "  (nothing)"


def test_the_first_error_is_shown_without_its_stack(tmp_path: Path) -> None:
    logged = "\n".join(
        ["12:00 INFO fine", "12:01 ERROR no disk", "\tat kafka.Deep.down", "java.io.IOException"]
        + [f"12:02 INFO shutting down {step}" for step in range(100)]
    )
    shown = broker_that_said(tmp_path, "", logged)
    assert shown.startswith("  12:01 ERROR no disk\n  java.io.IOException\n")
    assert "fine" not in shown
    assert "kafka.Deep" not in shown
    assert len(shown.splitlines()) == 12


def test_without_an_error_the_end_is_shown(tmp_path: Path) -> None:
    logged = "\n".join(f"12:00 INFO step {step}" for step in range(100))
    shown = broker_that_said(tmp_path, "no such option\n", logged)
    assert shown.splitlines()[0] == "  no such option"
    assert shown.splitlines()[-1] == "  12:00 INFO step 99"
