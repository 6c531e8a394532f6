"""Durations that people write become whole nanoseconds, and nothing else changes."""

import copy
import json
from pathlib import Path

import pytest

from kernelcat import cli, schema
from kernelcat.authoring import normalised
from kernelcat.errors import KernelcatError

SEED = json.loads((Path(__file__).parent / "data/seed/rms_norm-backward-huggingface-a100.json").read_text())


def written(median: object) -> dict:
    document = copy.deepcopy(SEED)
    document["run"]["spec"]["timing"]["latencyNs"]["median"] = median
    return document


@pytest.mark.parametrize("text", ["2569632 ns", "2569.632 us", "2569.632µs", "2.569632 ms", "0.002569632 s"])
def test_a_duration_becomes_nanoseconds(text):
    assert normalised(written(text)) == SEED
    assert normalised(written(text)["run"]) == SEED["run"]
    assert normalised({"kind": "Catalog", "objects": {"x": written(text)["run"]}})["objects"]["x"] == SEED["run"]


@pytest.mark.parametrize("text", ["0.0000001 ms", "1.5 ns", "2.5696321 ms"])
def test_a_fraction_of_a_nanosecond_is_refused(text):
    with pytest.raises(KernelcatError, match="whole nanoseconds"):
        normalised(written(text))


@pytest.mark.parametrize(
    "text",
    ["9" * 5000 + " ns", "1." + "0" * 5000 + " ns", "fast", "1 h", "-1 ms", "1e3 ns", "1,5 ms", "٣ ms", "", "1 ms\n"],
)
def test_what_is_no_duration_is_left_to_the_schema(text):
    assert normalised(written(text)) == written(text)
    assert [fault.pointer for fault in schema.faults(written(text))] == ["/run/spec/timing/latencyNs/median"]


def test_every_duration_of_a_run_and_a_protocol_is_one():
    run = {
        "kind": "BenchmarkRun",
        "spec": {
            "timing": {"latencyNs": {"mean": "1 us", "confidence95": ["1 us", "2 us"]}, "rawSamples": ["1 us", 3]},
            "measurements": [{"unit": "ns", "value": "1 us"}, {"unit": "bytes", "value": "1 us"}],
        },
    }
    assert normalised(run)["spec"] == {
        "timing": {"latencyNs": {"mean": 1000, "confidence95": [1000, 2000]}, "rawSamples": [1000, 3]},
        "measurements": [{"unit": "ns", "value": 1000}, {"unit": "bytes", "value": "1 us"}],
    }
    protocol = {"kind": "BenchmarkProtocol", "spec": {"measurement": {"warmupDuration": "25 ms", "timer": "1 ms"}}}
    assert normalised(protocol)["spec"] == {"measurement": {"warmupDuration": 25_000_000, "timer": "1 ms"}}


def test_endless_nesting_is_left_to_the_schema():
    value: dict = {}
    for _ in range(5000):
        value = {"a": value}
    assert normalised(value) == {"a": value["a"]}
    latencies = {"kind": "BenchmarkRun", "spec": {"timing": {"latencyNs": value, "rawSamples": value}}}
    assert normalised(latencies)["spec"]["timing"]["latencyNs"]["a"] is value["a"]


@pytest.mark.parametrize("value", [None, 1, "1 ms", [], {}, {"kind": []}, {"kind": "BenchmarkRun", "spec": 1}])
def test_anything_else_stays_as_it_is(value):
    assert normalised(value) == value


def test_commands_take_what_people_write(tmp_path, capsys):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(written("2.569632 ms")["run"]))
    assert cli.main(["digest", str(path)]) == 0
    assert capsys.readouterr().out == "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14\n"
    assert cli.main(["validate", str(path)]) == 0
    path.write_text(json.dumps(written("1.5 ns")["run"]))
    assert cli.main(["validate", str(path)]) == cli.main(["digest", str(path)]) == 1
    assert "expected a duration of whole nanoseconds, found" in capsys.readouterr().out
