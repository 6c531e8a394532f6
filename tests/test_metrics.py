"""The CSV of Liger's suite: what is written is read back, what others wrote is read alike, what is wrong is named."""

import csv
import io
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import metrics
from kernelcat.errors import KernelcatError
from kernelcat.metrics import Problem, Row, read, render, write

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.csv"
PUBLISHED = Path(__file__).parents[2] / "shared" / "liger" / "all_benchmark_data.csv"

HEADER = (
    "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,"
    "y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version"
)
NAMES = HEADER.split(",")
LETTERS = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o"
ROW = Row(*LETTERS.split(","))
VALUES = {
    "kernel_name": "rms_norm",
    "kernel_provider": "huggingface",
    "kernel_operation_mode": "backward",
    "metric_name": "speed",
    "metric_unit": "ms",
    "x_name": "H",
    "x_label": "hidden size",
    "x_value": 16384,
    "y_value_50": 2.569632053375244,
    "y_value_20": 2.5663681030273438,
    "y_value_80": 2.5731201171875,
    "config": {"M": 2048, "dtype": "torch.bfloat16", "eps": 1e-6},
    "gpu_name": "NVIDIA A100-SXM4-80GB",
    "timestamp": datetime(2024, 9, 3, 15, 39, 46, tzinfo=UTC),
    "liger_version": "0.2.1",
}

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text(',"\r\n \ufeffa')
rows = st.lists(st.builds(Row, *[cells] * 15), max_size=4)


def refused(data: str | bytes) -> str:
    """The one line of the refusal, without the file's name."""
    with pytest.raises(KernelcatError) as caught:
        read(data if isinstance(data, bytes) else data.encode(), "a.csv")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith("a.csv: ")
    return text.removeprefix("a.csv: ")


def body(text: str) -> list[tuple[int, Row | Problem]]:
    """The records that the text gives under a header."""
    return read(f"{HEADER}\n{text}".encode())


# ---- the published file


def test_the_seed_is_read_and_written_as_it_is():
    """It is the published row with the line ends of git; the suite itself ends lines with CRLF."""
    [(number, row)] = read(SEED)
    assert number == 2
    assert render([row]) == SEED.read_bytes().replace(b"\n", b"\r\n")


def test_typed_values_give_the_row_of_the_seed():
    [(_, row)] = read(SEED)
    assert Row.make(**VALUES) == row


@pytest.mark.skipif(
    not PUBLISHED.is_file(), reason="the published rows are not beside the repository (../shared/liger)"
)
def test_the_published_rows_are_written_again_byte_for_byte():
    records = read(PUBLISHED)
    assert [number for number, _ in records] == list(range(2, 2450))
    assert render(row for _, row in records) == PUBLISHED.read_bytes()


# ---- rows from values


@pytest.mark.parametrize(
    ("name", "value", "column", "text"),
    [
        ("x_value", 16384.0, "x_value", "16384"),
        ("x_value", 0.5, "x_value", "0.5"),
        ("x_value", "llama_3_8b", "x_value", "llama_3_8b"),
        ("y_value_50", 1, "y_value_50", "1.0"),
        ("y_value_20", 0.1 + 0.2, "y_value_20", "0.30000000000000004"),
        ("y_value_80", None, "y_value_80", ""),
        ("config", {"b": 1, "a": None}, "extra_benchmark_config_str", '{"b": 1, "a": null}'),
        ("config", {}, "extra_benchmark_config_str", "{}"),
        ("timestamp", datetime(2024, 9, 3, 15, 39, 46, 999_999), "timestamp", "2024-09-03 15:39:46"),
        (
            "timestamp",
            datetime(2024, 9, 3, 1, 0, 0, tzinfo=timezone(timedelta(hours=2))),
            "timestamp",
            "2024-09-02 23:00:00",
        ),
        ("timestamp", "as it is", "timestamp", "as it is"),
    ],
)
def test_values_are_formatted_as_the_suite_does(name, value, column, text):
    assert getattr(Row.make(**{**VALUES, name: value}), column) == text


# ---- what is written


@settings(deadline=None)
@given(rows)
def test_what_is_written_is_read_back(written):
    assert read(render(written)) == list(enumerate(written, start=2))


@settings(deadline=None)
@given(rows)
def test_any_csv_reader_gives_the_cells(written):
    text = io.StringIO(render(written).decode(), newline="")
    assert list(csv.reader(text)) == [NAMES, *map(list, map(astuple, written))]


def test_only_cells_that_need_it_are_quoted():
    written = replace(ROW, kernel_name="a,b", x_name='say "µ"', x_label="two\nlines", x_value=" 1 ", liger_version="")
    line = '"a,b",b,c,d,e,"say ""µ""","two\nlines", 1 ,i,j,k,l,m,n,\r\n'
    assert render([written]) == f"{HEADER}\r\n{line}".encode()
    assert render([]) == f"{HEADER}\r\n".encode()


@pytest.mark.parametrize(("cell", "message"), [("a\0b", "NUL"), ("a\ud800", r"lone surrogate '\\ud800'")])
def test_text_that_nobody_reads_back_is_not_written(tmp_path, cell, message):
    with pytest.raises(KernelcatError, match=message):
        write(tmp_path / "a.csv", [ROW, replace(ROW, x_label=cell)])
    assert list(tmp_path.iterdir()) == []


def test_a_written_file_is_read_by_its_path(tmp_path):
    write(tmp_path / "new" / "a.csv", [ROW])
    assert (tmp_path / "new" / "a.csv").read_bytes() == f"{HEADER}\r\n{LETTERS}\r\n".encode()
    assert read(tmp_path / "new" / "a.csv") == read(str(tmp_path / "new" / "a.csv")) == [(2, ROW)]


# ---- what is read


@settings(deadline=None)
@given(
    rows,
    st.permutations(range(15)),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.sampled_from(["", " ", "\t "]), max_size=2),
    st.booleans(),
)
def test_the_form_of_a_file_does_not_matter(written, order, end, marked, blank, ended):
    """Line ends, a byte order mark, blank lines, the order of columns and more quotes than needed."""
    lines = [",".join(NAMES[index] for index in order)]
    for row in written:
        quoted = ['"' + cell.replace('"', '""') + '"' for cell in astuple(row)]
        lines += [*blank, ",".join(quoted[index] for index in order)]
    text = "\ufeff" * marked + end.join([*blank, *lines]) + end * ended
    assert read(text.encode()) == list(enumerate(written, start=2))


def test_a_last_line_needs_no_end():
    assert read(f"{HEADER}\n{LETTERS}\n{LETTERS}".encode()) == [(2, ROW), (3, ROW)]


def test_a_file_that_is_being_written_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n{LETTERS}\n")
    whole = Path.read_bytes

    def read_and_append(self):
        data = whole(self)
        with self.open("a") as file:
            file.write(f"{LETTERS}\n")
        return data

    monkeypatch.setattr(Path, "read_bytes", read_and_append)
    with pytest.raises(
        KernelcatError, match="a.csv: expected a CSV file that is complete, found one that is being wri"
    ):
        read(path)


@settings(deadline=None)
@given(st.binary() | st.text(',"\r\n \ufeff\0aé').map(str.encode), st.booleans())
def test_any_bytes_are_read_or_refused_in_one_line(data, headed):
    try:
        records = read(f"{HEADER}\n".encode() * headed + data)
    except KernelcatError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert [number for number, _ in records] == list(range(2, len(records) + 2))
        assert all(isinstance(record, Row | Problem) for _, record in records)


@pytest.mark.parametrize(
    ("line", "reason", "found"),
    [
        ("a,b", "ragged_record", "2 fields: a,b"),
        (f"{LETTERS},p", "ragged_record", f"16 fields: {LETTERS},p"),
        ("a", "ragged_record", "1 fields: a"),
        ("a," + "x" * 200, "ragged_record", "2 fields: a," + "x" * 107 + "…"),
        ('"a"b,c', "bad_quoting", '"a"b,c'),
        ('a,"b" ,c', "bad_quoting", 'a,"b" ,c'),
        ("x" * 131_073, "field_too_long", "x" * 119 + "…"),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_bad_record_stands_beside_the_good_ones(line, reason, found, end):
    text = end.join([LETTERS, line, LETTERS])
    assert body(text) == [(2, ROW), (3, Problem(reason, found)), (4, ROW)]


def test_quotes_inside_of_a_cell_are_text():
    [(_, row)] = body(LETTERS.replace("b", 'b "c"'))
    assert row == replace(ROW, kernel_provider='b "c"')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "expected a header and rows, found an empty file"),
        ("\ufeff", "expected a header and rows, found an empty file"),
        ("\n \r\n\t\n", "expected a header and rows, found an empty file"),
        (f"{HEADER}\n{LETTERS}\n\0", "line 3: expected text, found a NUL byte"),
        (HEADER.encode("utf-16-le"), "line 1: expected text, found a NUL byte"),
        (f"{HEADER}\r\n\r".encode() + b"caf\xe9", "line 3: expected UTF-8, found the byte 0xe9"),
        (b"\xef\xbb\xbf\n\n\xff", "line 3: expected UTF-8, found the byte 0xff"),
        (f'{HEADER}\n{LETTERS}\n"a', "line 3: expected a quote to be closed, found it open at line 3"),
        (f'{HEADER}\n"a,b\n{LETTERS}\n', "line 2: expected a quote to be closed, found it open at line 3"),
        (f'{HEADER}\n"a,b\n"c,d\n{LETTERS}\n', "line 2: expected a quote to be closed, found it open at line 3"),
        ('"a"b\n', "line 1: expected the header, found bad_quoting in '\"a\"b'"),
    ],
    ids=range(11),
)
def test_a_file_that_cannot_be_trusted_is_refused(data, message):
    assert refused(data) == message


SHOWN = ", ".join(map(repr, "0123456789ABCDE"))


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (HEADER.removesuffix(",liger_version"), "missing liger_version"),
        (f"{HEADER},extra", "unknown 'extra'"),
        (f"{HEADER},x_name,x_name", "repeated x_name"),
        (f"{HEADER},", "unknown ''"),
        (HEADER.replace("gpu_name", "GPU_name"), "missing gpu_name; unknown 'GPU_name'"),
        (HEADER.replace("gpu_name", "x_name"), "missing gpu_name; repeated x_name"),
        (f'{HEADER},"two\nlines"', r"unknown 'two\nlines'"),
        (f"{HEADER},{'x' * 99}", f"unknown '{'x' * 39}…'"),
        (f"{HEADER},{','.join('0123456789ABCDEFG')}", f"unknown {SHOWN} and 2 more"),
        (LETTERS, f"missing {', '.join(NAMES)}; unknown {', '.join(map(repr, LETTERS.split(',')))}"),
    ],
    ids=range(10),
)
def test_other_columns_are_refused_by_name(header, found):
    said = "header: expected the 15 columns of the Liger suite, found: "
    assert refused(f"{header}\n{LETTERS}\n") == said + found


def test_the_columns_are_those_of_the_suite():
    assert list(metrics.COLUMNS) == NAMES


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "expected a CSV file, found: Is a directory"),
        ("none.csv", "expected a CSV file, found: No such file"),
        ("x\0y", "null byte"),
        ("a\nb", "No such file"),
    ],
)
def test_what_is_no_file(tmp_path, name, message):
    with pytest.raises(KernelcatError, match=message) as caught:
        read(f"{tmp_path}/{name}")
    assert len(str(caught.value).splitlines()) == 1
