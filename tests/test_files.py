"""Files: what is written is whole or absent; what is read is exactly what the text says, or refused in one line."""

import io
import json
import os
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import files
from kernelcat.errors import KernelcatError
from kernelcat.files import load, write
from kernelcat.identity import MAX_INTEGER, canonical_json


def loaded(tmp_path, name: str, data: str | bytes, **options) -> object:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return load(path, **options)


def refused(tmp_path, name: str, data: str | bytes, **options) -> str:
    """The one line of the refusal, without the file's name."""
    with pytest.raises(KernelcatError) as caught:
        loaded(tmp_path, name, data, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(f"{tmp_path / name}: ")
    return text.removeprefix(f"{tmp_path / name}: ")


# ---- JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("null", None),
        ("1e-6", 1e-6),
        ("9007199254740991", MAX_INTEGER),
        ("9007199254740993", 9007199254740993),  # no double: kept, so that validation can name its place
        ("1E30", 1e30),
    ],
)
def test_json(tmp_path, text, value):
    assert loaded(tmp_path, "a.json", text) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.0", 1), ("-0.0", 0), ("1e3", 1000), ("100000000000000000000", 1e20), ("1e20", 1e20), ("-2.5", -2.5)],
)
@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_numbers_have_one_reading(tmp_path, name, text, number):
    """A document and its canonical JSON load alike, types included: case keys print axes, and 2048.0 is not 2048."""
    value = loaded(tmp_path, name, text)
    assert (value, type(value)) == (number, type(number))
    again = loaded(tmp_path, name, canonical_json(value))
    assert (again, type(again)) == (number, type(number))


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-MAX_INTEGER, MAX_INTEGER))
def test_every_number_survives_its_canonical_text(number):
    assert files._json(canonical_json(number).decode()) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', 'expected each key once, found "c" twice in one object'),
        ('{"a": NaN}', "expected finite numbers, found NaN"),
        ("[-Infinity]", "expected finite numbers, found -Infinity"),
        ("1e400", "expected finite numbers, found 1e400"),
        ("9" * 401, "expected integers within ±(2^53-1), found one of 401 digits"),
        ("9" * 10_000, "expected integers within ±(2^53-1), found one of 10000 digits"),
        ("[" * 100_000, "expected a document of bounded depth, found more than 100 levels"),
        ('{"a":\n 1,}', "line 2, column 4: expected JSON: "),
        ('{"a": 1} x', "line 1, column 10: expected JSON: Extra data"),
        ("a: 1", "line 1, column 1: expected JSON: "),
        ('"\n"', "line 1, column 2: expected JSON: "),
        ("", "expected a JSON or YAML document, found an empty file"),
        (" \n\t", "expected a JSON or YAML document, found an empty file"),
        (b'{\n"a": "\xff"}', "line 2: expected UTF-8, found byte 0xff"),
        ('{"a": 1}'.encode("utf-16"), "line 1: expected UTF-8, found byte 0xff"),
    ],
    ids=range(15),
)
def test_json_refuses(tmp_path, text, message):
    assert refused(tmp_path, "a.json", text).startswith(message)


# ---- YAML


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [2, x]\n", {"a": 1, "b": [2, "x"]}),
        ('{"json": ["is", "YAML"]}', {"json": ["is", "YAML"]}),
        ("a: 2024-09-03", {"a": "2024-09-03"}),  # dates stay text
        ("a: 2024-09-03 15:39:46", {"a": "2024-09-03 15:39:46"}),
        ("a: 2024-09-03T15:39:46.000Z", {"a": "2024-09-03T15:39:46.000Z"}),
        ("a: yes\nb: off\nc: y", {"a": "yes", "b": "off", "c": "y"}),  # and so do YAML 1.1's booleans
        ("%YAML 1.1\n---\na: yes", {"a": "yes"}),
        ("a: true\nb: False", {"a": True, "b": False}),
        ("a: 010\nb: 0o17\nc: 0x1F\nd: +5", {"a": 10, "b": 15, "c": 31, "d": 5}),
        ("a: 1_000\nb: 1:30\nc: 0b1", {"a": "1_000", "b": "1:30", "c": "0b1"}),
        ("a: 1e-6\nb: .5\nc: 5.", {"a": 1e-6, "b": 0.5, "c": 5}),
        ("a: ~\nb:\nc: null\nd: ''", {"a": None, "b": None, "c": None, "d": ""}),
        ("a: '1'\nb: !!str 2", {"a": "1", "b": "2"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("<<: {a: 1}\n=: 2", {"<<": {"a": 1}, "=": 2}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("null", None),
    ],
)
@pytest.mark.filterwarnings("error")
def test_yaml(tmp_path, text, value):
    assert loaded(tmp_path, "a.yaml", text) == value


def test_what_an_alias_repeats_is_a_copy(tmp_path):
    value = loaded(tmp_path, "a.yaml", "a: &x [1]\nb: *x")
    value["a"].append(2)
    assert value["b"] == [1]


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 1", 'line 3, column 1: expected each key once, found "a" twice in one mapping'),
        ("{a: 1, a: 1}", "line 1, column 8: expected each key once"),
        ("a: .nan", "line 1, column 4: expected finite numbers, found nan"),
        ("a: -.inf", "line 1, column 4: expected finite numbers, found -inf"),
        ("a: 1e999", "line 1, column 4: expected finite numbers, found 1e999"),
        ("a: 0x" + "f" * 500, "line 1, column 4: expected integers within"),
        ("1: a", "line 1, column 1: expected keys that are text, found 1"),
        ("? [a]\n: b", "line 1, column 3: expected keys that are text, found ['a']"),
        ("a: !!timestamp 2024-01-01", "line 1, column 4: expected a value of YAML's core schema, found the tag"),
        ("a: !!python/name:os.system x", "line 1, column 4: expected a value of YAML's core schema"),
        ("- !!set {a, b}", "line 1, column 3: expected a value of YAML's core schema"),
        ("a: !!binary aGk=", "line 1, column 4: expected a value of YAML's core schema"),
        ("!x {}", "line 1, column 1: expected a value of YAML's core schema"),
        ("a: !!int x", "line 1, column 4: expected a value of YAML's core schema"),
        ("a: &x [*x]", "line 1, column 4: expected a document of bounded depth, found an alias inside"),
        ("a: &a " + "x" * 10_000 + "\nb: [" + "*a, " * 100 + "]", "line 1, column 4: expected at most 10000 values by"),
        (BOMB, "line 1, column 22: expected at most 10000 values by alias, found more"),
        ("[" * 100_000, "expected a document of bounded depth, found more than 100 levels"),
        ("a: *z", "line 1, column 4: expected YAML 1.2: found undefined alias"),
        ("a: 1\n---\nb: 2", "line 2, column 1: expected YAML 1.2: expected a single document"),
        ("a:\n\t- b", "line 2, column 1: expected YAML 1.2: "),
        ("a: b: c", "line 1, column 5: expected YAML 1.2: mapping values are not allowed here"),
        ("[1, 2", "line 1, column 6: expected YAML 1.2: "),
        ("a: \x07", "expected YAML 1.2: unacceptable character"),
        ("# nothing", "expected a YAML document, found only comments"),
        ("", "expected a JSON or YAML document, found an empty file"),
        (b"a: \xe9", "line 1: expected UTF-8, found byte 0xe9"),
    ],
    ids=range(27),
)
def test_yaml_refuses(tmp_path, text, message):
    assert refused(tmp_path, "a.yaml", text).startswith(message)


@settings(deadline=None)
@given(st.text(st.sampled_from("a1 :-{}[],\n\t&*!|>'\"#%@`?.~=<\\x0")) | st.text() | st.binary().map(repr))
def test_any_text_is_read_or_refused(text):
    for read in (files._json, files._yaml):
        try:
            value = read(text)
        except files._Refused as error:
            assert len(str(error).splitlines()) <= 1
        except RecursionError:
            pass
        else:
            json.dumps(value, allow_nan=False)  # plain values only


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(st.characters(codec="ascii")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=3),
        max_leaves=10,
    )
)
def test_canonical_json_is_yaml_too(value):
    if "\\u007f" not in json.dumps(value) and "\x7f" not in json.dumps(value, ensure_ascii=False):
        assert files._yaml(canonical_json(value).decode()) == value


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a": ', "}")])
def test_depth_is_bounded(tmp_path, name, opening, closing):
    """What walks through a document recurses, and must never meet the interpreter's limit."""
    text = opening * 99 + "[]" + closing * 99
    assert loaded(tmp_path, name, text) == json.loads(text)
    deeper = refused(tmp_path, name, f"{opening}{text}{closing}")
    assert deeper == "expected a document of bounded depth, found more than 100 levels"


# ---- what is read


def test_the_limit(tmp_path):
    text = "[" + "1," * 600_000 + "1]"
    assert refused(tmp_path, "a.json", text) == "expected at most 1048576 bytes, found more"
    assert len(loaded(tmp_path, "a.json", text, limit=None)) == 600_001
    assert refused(tmp_path, "a.json", "[1]", limit=2) == "expected at most 2 bytes, found more"
    assert loaded(tmp_path, "a.json", "[1]", limit=3) == [1]


@pytest.mark.parametrize(
    ("name", "message"),
    [(".", "Is a directory"), ("none.json", "No such file or directory"), ("x\0y", "null byte"), ("a\nb", "No such")],
)
def test_what_is_no_file(tmp_path, name, message):
    with pytest.raises(KernelcatError, match=message) as caught:
        load(f"{tmp_path}/{name}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "value"), [(b'{"a": 1}', {"a": 1}), (b"\n [1]", [1]), (b"a: 1", {"a": 1}), (b"- 1", [1])]
)
def test_standard_input(monkeypatch, data, value):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert load("-") == value


def test_faults_of_standard_input_say_so(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"a": 1, "a": 1}')))
    with pytest.raises(KernelcatError, match="^standard input: expected each key once"):
        load("-")


def test_nothing_of_yaml_is_imported_for_json(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ruamel.yaml", None)  # importing it now fails
    assert loaded(tmp_path, "a.json", "{}") == {}
    with pytest.raises(ImportError):
        loaded(tmp_path, "a.yaml", "{}")


# ---- what is written


def test_write_makes_folders_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "a" / "b" / "c.json"
    write(target, b"one")
    write(target, b"two")
    assert target.read_bytes() == b"two"
    assert [path.name for path in target.parent.iterdir()] == ["c.json"]


def test_write_obeys_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_target_untouched(tmp_path, monkeypatch):
    target = tmp_path / "a"
    write(target, b"old")

    def broken(source, destination):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_longest_file_name_can_be_written(tmp_path):
    write(tmp_path / ("x" * 255), b"data")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"data"


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "folder"
    files.write_folder(target, {"a": b"1"})
    files.write_folder(target, {"b": b"2"})
    assert [path.name for path in target.iterdir()] == ["b"]
    rename = files.os.rename

    def refuse(source, goal):
        if goal == target and source.name == "new":
            raise OSError(28, "No space left on device")
        rename(source, goal)

    monkeypatch.setattr(files.os, "rename", refuse)
    with pytest.raises(OSError):
        files.write_folder(target, {"c": b"3"})
    assert [path.name for path in target.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_parts_that_a_kill_has_left_are_removed(tmp_path):
    (tmp_path / "deep/.plots.x.part/new").mkdir(parents=True)
    (tmp_path / "deep/.plots.x.part/new/.a.svg.y.part").touch()
    (tmp_path / "deep/.a.json.z.part").touch()
    (tmp_path / "deep/a.json").touch()
    files.remove_parts(tmp_path)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.json"]
