"""What a subject's script says of itself is read without running it, and nonsense is refused in one line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from soak.checker.contract import Order
from soak.errors import UsageError
from soak.servers.redis import redis_settings
from soak.subjects import catalogue
from soak.subjects.description import read_script, version_of
from soak.subjects.environment import _NOT_PINNED, redis_options_of
from soak.subjects.process import KIT

HEAD = (
    "# /// script\n# dependencies = ['thing[redis]==1.2']\n#\n# [tool.soak]\n# library = 'thing'\n# title = 'a thing'\n"
)


def script(folder: Path, text: str) -> Path:
    path = folder / "a_thing.py"
    path.write_text(text)
    return path


def test_a_script_is_read_with_its_releases(tmp_path: Path) -> None:
    newest, older = read_script(
        script(
            tmp_path,
            HEAD + "# needs = ['redis']\n# [tool.soak.contract]\n# order = 'none'\n"
            "# [tool.soak.releases.'1.0']\n# dependencies = ['thing==1.0']\n# ///\nraise SystemExit\n",
        )
    )
    assert (newest.name, newest.version, newest.server, newest.processes) == ("a-thing", "1.2", "redis", 2)
    assert newest.contract.order is Order.NONE
    assert (older.name, older.dependencies, older.is_newest) == ("a-thing@1.0", ["thing==1.0"], False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("print()\n", "no '# /// script' block"),
        ("# /// script\n# dependencies = [\n# ///\n", "not understood"),
        (HEAD + "# needs = ['oracle']\n# ///\n", "needs should be"),
        (HEAD + "# processes = 99\n# ///\n", "processes should be"),
        (HEAD + "# needs = ['postgres']\n# server-module = 'a.so'\n# ///\n", "server-module is for what needs redis"),
        (HEAD + "# wishes = 3\n# ///\n", "wishes"),
        (HEAD + "# [tool.soak.contract]\n# order = 'best'\n# ///\n", "best"),
    ],
)
def test_nonsense_is_refused_with_the_reason(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as raised:
        read_script(script(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_every_subject_of_ours_pins_what_it_needs_and_says_what_is_promised() -> None:
    subjects = catalogue.all_subjects()
    assert len({subject.library for subject in subjects.values()}) >= 7
    for subject in subjects.values():
        assert subject.version, subject.name
        assert subject.promises.endswith("."), subject.name
        assert not [one for one in subject.dependencies if _NOT_PINNED.search(one)], subject.name
        if subject.is_newest and subject.dependencies:
            assert version_of(subject.library, subject.dependencies) == subject.version


def test_subjects_are_found_by_name_release_and_path_and_the_nearest_name_is_offered(tmp_path: Path) -> None:
    path = script(tmp_path, HEAD + "# ///\n")
    names = ["agno-redis@2.6.4", str(path)]
    assert [subject.name for subject in catalogue.find(names)] == ["agno-redis@2.6.4", "a-thing"]
    assert all(subject.is_newest for subject in catalogue.find([]))
    with pytest.raises(UsageError, match=r"did you mean agno-redis"):
        catalogue.find(["agno-reddis"])
    with pytest.raises(UsageError, match="knows no release 9"):
        catalogue.find([f"{path}@9"])


def test_a_subject_for_many_is_told_which_and_is_no_part_of_a_whole_analysis() -> None:
    name = "langgraph-checkpointer"
    (subject,) = catalogue.find([f"{name}=my.savers:Saver.open,my-savers==1.2,redis"])
    assert (subject.factory, subject.needs, subject.import_path) == ("my.savers:Saver.open", ["redis"], str(Path.cwd()))
    assert subject.dependencies[-1] == "my-savers==1.2"
    assert subject.name == name
    (in_files,) = catalogue.find([f"{name}=my.savers:Saver"])
    assert in_files.keeps_files
    assert not in_files.needs
    assert not any(subject.takes_factory for subject in catalogue.find([]))


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ("", r"say which: langgraph-checkpointer=package\.module:factory"),
        ("=savers", "say which"),
        ("=a:b,c", "'c' is neither a package"),
        ("=a:b,redis,postgres", "name one server, or none"),
    ],
)
def test_a_subject_for_many_that_is_not_told_which_says_so_in_one_line(choice: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as raised:
        catalogue.find([f"langgraph-checkpointer{choice}"])
    assert "\n" not in str(raised.value)


def test_the_module_of_a_server_is_found_among_the_packages_of_its_subject(tmp_path: Path) -> None:
    head = HEAD + "# needs = ['redis']\n"
    (wanting,) = read_script(script(tmp_path, head + "# server-module = 'stack/lib/search.so'\n# ///\n"))
    module = tmp_path / "lib" / "python3.11" / "site-packages" / "stack" / "lib" / "search.so"
    module.parent.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"search\.so of a-thing is not among its packages"):
        redis_options_of(wanting, tmp_path / "bin" / "python")
    module.touch()
    assert redis_options_of(wanting, tmp_path / "bin" / "python") == {"loadmodule": str(module)}
    two = f"# server-module = ['{module}', 'stack/lib/search.so']\n# ///\n"
    (absolute,) = read_script(script(tmp_path, head + two))
    options = redis_options_of(absolute, tmp_path / "bin" / "python")
    written = redis_settings(options, password="", bind="127.0.0.1", port=1, folder="/")
    assert [line for line in written.splitlines() if "loadmodule" in line] == [f'loadmodule "{module}"'] * 2
    (plain,) = read_script(script(tmp_path, head + "# ///\n"))
    assert redis_options_of(plain, tmp_path / "bin" / "python") == {}


def kit() -> Any:
    spec = importlib.util.spec_from_file_location("soak_subject", KIT / "soak_subject.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules["soak_subject"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("content", ["", "hello", "3:abc", ":", "12:", "\n a b", "\x00"])
def test_an_id_in_front_of_the_content_comes_off_again_whatever_they_hold(content: str) -> None:
    subject = kit()
    message = subject.ChatTurn("run/a b:c\n/0/1/00", "user", content)
    assert subject.without_id(subject.with_id(message)) == message


@pytest.mark.parametrize("text", [None, 7, "", "no id", "9:short", "x:y"])
def test_what_has_no_id_is_handed_on_as_it_came(text: object) -> None:
    subject = kit()
    assert subject.without_id(text) == subject.ChatTurn(None, None, text)


@pytest.mark.parametrize("complaint", ["Index already exists", "unknown command"])
def test_an_index_that_another_process_made_meanwhile_is_used(complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(KIT))
    with_index = importlib.import_module("soak_redis").with_index
    tries: list[str] = []

    def make() -> str:
        tries.append(complaint)
        if len(tries) == 1:
            raise RuntimeError(complaint)
        return "made"

    if complaint == "unknown command":
        with pytest.raises(RuntimeError, match=complaint):
            with_index(make)
    else:
        assert with_index(make) == "made"


def test_the_kit_needs_nothing_but_the_standard_library() -> None:
    source = (KIT / "soak_subject.py").read_text()
    lines = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    names = {line.split()[1].partition(".")[0] for line in lines}
    import sys  # noqa: PLC0415

    assert names <= set(sys.stdlib_module_names)


def test_a_factory_is_found_by_its_name_in_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "savers_of_a_test.py").write_text(
        "class Saver:\n    @staticmethod\n    def make(address): return address\n"
    )
    monkeypatch.setattr("sys.path", list(sys.path))
    surroundings = kit().Surroundings(
        factory="savers_of_a_test:Saver.make", import_path=str(tmp_path), folder="/here", servers={}
    )
    assert surroundings.found_factory()(surroundings.address) == "/here/memory.db"
    assert kit().Surroundings(servers={"redis": "redis://a"}).address == "redis://a"
