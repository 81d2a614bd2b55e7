"""Counters as a value: what they mean, the copy check, the fallback, the file, the command."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from explain import cli
from explain.counters import count, file, ncu, trouble
from explain.counters.model import COPIED_BYTES, METRICS, CopyCheck, Counters, Counts
from explain.counters.sizes import sizes
from explain.device.measurement import Provenance
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment, ParameterError
from explain.workers import WorkerFailed, WorkerSpec
from kernels.catalog import CATALOG
from kernels.parameters import ITEM_BYTES

FAKE = WorkerSpec("device", "tests.explain.device.fake_worker:handle", default_seconds=20, address_space_limit=False)
WHERE = Provenance("Test GPU", "1", "13.0", "2", "3", "3.11", "2026-01-01")
EXPERIMENT = Experiment.of("softmax_online")
WHY = trouble.of_code(35, "cuptiRangeProfilerEnable", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")


def counted(**values: float) -> Counts:
    return Counts.of(
        {name: values.get(name, 1.0) for name in METRICS}, {"dram_written_bytes": values.get("dirty", 0.0)}
    )


def counters() -> Counters:
    copy = CopyCheck(COPIED_BYTES, COPIED_BYTES, COPIED_BYTES)
    return Counters(
        EXPERIMENT.to_json(), counted(), counted(tensor_percent=0.5), copy, "GH100", "fake", "", (), 1, WHERE
    )


def test_sectors_are_bytes_a_share_stays_a_share_and_no_value_is_none():
    counts = counted(l2_read_bytes=10.0, tensor_percent=12.5, l1_bytes=math.nan, dirty=7.0)
    assert counts.l2_read_bytes == 320
    assert counts.tensor_percent == 12.5
    assert counts.l1_bytes is None
    assert counts.dirty_bytes == 7
    assert Counts.of({}, {}).dram_read_bytes is None


@pytest.mark.parametrize(
    ("off", "passes"), [(0, True), (0.0009, True), (-0.0009, True), (0.0011, False), (-0.3, False)]
)
def test_a_copy_must_be_counted_within_a_thousandth(off, passes):
    moved = COPIED_BYTES * (1 + off)
    dirty = 20_000_000
    for reads, writes in ((moved, COPIED_BYTES), (COPIED_BYTES, moved)):
        check = CopyCheck.of(
            COPIED_BYTES, counted(dram_read_bytes=reads, dram_written_bytes=writes - dirty, dirty=dirty)
        )
        assert check.passed is passes
        if passes:
            count.require(check)
        else:
            with pytest.raises(trouble.CountersUnavailable, match="Counters not trusted"):
                count.require(check)


def test_without_dram_counters_nothing_is_trusted():
    with pytest.raises(trouble.CountersUnavailable, match=r"not trusted.*no DRAM bytes"):
        count.require(CopyCheck(COPIED_BYTES, None, None))


def test_counters_round_trip():
    assert Counters.from_json(json.loads(json.dumps(counters().to_json()))) == counters()


# The fallback


def _ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, status: int = 0) -> None:
    """An ncu on the path that prints this."""
    (tmp_path / "says").write_text(prints)
    (tmp_path / "ncu").write_text(f'#!/bin/sh\ncat "{tmp_path}/says"\nexit {status}\n')
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def _table(*reads: int) -> str:
    rows = [f'"{number}","python","{value:,}","2,000"' for number, value in enumerate(reads)]
    head = [
        "==PROF== Profiling",
        '"ID","Process Name","dram__bytes_read.sum","l1tex__t_bytes.sum"',
        '"","","byte","byte"',
    ]
    return "\n".join([*head, *rows, ""])


def test_where_cupti_cannot_ncu_counts_and_it_is_said(tmp_path, monkeypatch):
    _ncu(tmp_path, monkeypatch, _table(COPIED_BYTES, 123_456, 78))

    def refused(*_: object) -> None:
        raise WHY

    monkeypatch.setattr(count, "_in_process", refused)
    got = count.count(EXPERIMENT, WHERE, lambda *_: None)
    assert (got.cold.dram_read_bytes, got.warm.dram_read_bytes, got.cold.l1_bytes) == (123_456, 78, 2000)
    assert got.method.startswith("ncu")
    assert "ERR_NVGPUCTRPERM" in got.fallback
    assert "l2_read_bytes" in got.lacking
    assert got.cold.dirty_bytes is None


@pytest.mark.parametrize(
    ("prints", "status", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", 1, "ncu could not count either: ==ERROR== ERR_NVGPUCTRPERM"),
        ("nothing\n", 0, "printed no table"),
        (_table(COPIED_BYTES, 1), 0, "counted 2 ranges, not 3"),
        (_table(COPIED_BYTES // 2, 1, 1), 0, "counters not trusted"),
    ],
)
def test_where_ncu_cannot_either_both_reasons_are_given(tmp_path, monkeypatch, prints, status, words):
    _ncu(tmp_path, monkeypatch, prints, status)
    with pytest.raises(trouble.CountersUnavailable, match=words) as failed:
        ncu.count(EXPERIMENT, WHERE, WHY)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(failed.value)


def test_without_ncu_cuptis_reason_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(trouble.CountersUnavailable) as failed:
        ncu.count(EXPERIMENT, WHERE, WHY)
    assert failed.value is WHY


# Asked of the worker


def test_the_engine_gives_counters_or_the_reason_and_the_worker_lives():
    engine = Engine(device=FAKE)
    try:
        attention = Experiment.of("flash_attention")
        assert engine.counters(attention).cold.dirty_bytes == 24
        with pytest.raises(WorkerFailed, match=r"ERR_NVGPUCTRPERM.*NVreg"):
            engine.counters(attention.with_(seed=7))
        assert engine.counters(attention).experiment == attention.to_json()
    finally:
        engine.close()


# The file


def test_a_file_gives_back_what_was_saved(tmp_path):
    missed = [{"experiment": EXPERIMENT.to_json(), "why": "the tile is too large"}]
    file.save(tmp_path / "gpu.json", [counters()], missed)
    loaded = file.load(tmp_path / "gpu.json")
    assert loaded.counted == (counters(),)
    assert loaded.missed == tuple(missed)
    assert loaded.commit
    assert [path.name for path in tmp_path.iterdir()] == ["gpu.json"]


def _saved(tmp_path: Path) -> dict[str, Any]:
    file.save(tmp_path / "gpu.json", [counters()], [])
    return json.loads((tmp_path / "gpu.json").read_text())


def _signed(content: dict[str, Any]) -> bytes:
    body = {name: value for name, value in content.items() if name not in ("format", "version", "digest")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()}).encode()


def test_a_damaged_file_is_refused(tmp_path):
    _saved(tmp_path)
    data = (tmp_path / "gpu.json").read_bytes()
    for broken in (b"", data[: len(data) // 2], b"\xff\xfe", data.replace(b'"version": 1', b'"version": "one"')):
        with pytest.raises(file.CountersFileError, match="damaged"):
            file.parse(broken)


def test_an_altered_number_is_refused(tmp_path):
    content = _saved(tmp_path)
    content["counted"][0]["cold"]["dram_read_bytes"] += 1
    with pytest.raises(file.CountersFileError, match="altered"):
        file.parse(json.dumps(content).encode())


def test_a_newer_format_is_refused_as_newer(tmp_path):
    content = {**_saved(tmp_path), "version": 2, "counted": "in another way"}
    with pytest.raises(file.CountersFileError, match=r"format 2.*update Tilescope"):
        file.parse(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"[]", b"3", b'{"format": "tilescope"}'])
def test_another_file_is_refused(data):
    with pytest.raises(file.CountersFileError, match="no file of counters"):
        file.parse(data)


def test_an_unknown_kernel_or_a_missing_field_is_refused(tmp_path):
    unknown, short = _saved(tmp_path), _saved(tmp_path)
    unknown["counted"][0]["experiment"]["kernel"] = "softmax_of_tomorrow"
    del short["counted"][0]["cold"]["l1_bytes"]
    for content in (unknown, short):
        with pytest.raises(file.CountersFileError, match="does not know"):
            file.parse(_signed(content))


# The command


@pytest.mark.parametrize("kernel", CATALOG)
def test_a_kernel_is_counted_at_three_sizes_beyond_any_l2(kernel):
    experiments = sizes(kernel)
    assert len(set(experiments)) == 3
    for experiment in experiments:
        p = experiment.values
        attention = experiment.entry.family == "attention"
        elements = 3 * p["batch"] * p["heads"] * p["seq_len"] * p["head_dim"] if attention else p["rows"] * p["cols"]
        assert elements * ITEM_BYTES[p["dtype"]] > 96e6


def test_measure_writes_one_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "Engine", lambda: Engine(device=FAKE))
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(True, ""))
    status = cli.main(["measure", "softmax_online", "flash_attention", "--out", str(tmp_path / "gpu.json")])
    loaded = file.load(tmp_path / "gpu.json")
    assert status == 0
    assert [one.experiment for one in loaded.counted] == [
        experiment.to_json() for kernel in ("softmax_online", "flash_attention") for experiment in sizes(kernel)
    ]
    assert "6 counted, 0 not" in capsys.readouterr().out


def test_what_could_not_be_counted_is_in_the_file_with_the_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "Engine", lambda: Engine(device=FAKE))
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(True, ""))
    monkeypatch.setattr(cli, "sizes", lambda kernel: (Experiment.of(kernel, seed=7), Experiment.of(kernel)))
    assert cli.main(["measure", "softmax_row", "--out", str(tmp_path / "gpu.json")]) == cli.FAILED
    loaded = file.load(tmp_path / "gpu.json")
    assert len(loaded.counted) == 1
    assert "ERR_NVGPUCTRPERM" in loaded.missed[0]["why"]
    assert "1 counted, 1 not" in capsys.readouterr().out


def test_measure_without_a_gpu_or_of_no_kernel_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(False, "No NVIDIA driver on this machine."))
    out = tmp_path / "gpu.json"
    assert cli.main(["measure", "softmax_row", "--out", str(out)]) == cli.FAILED
    assert "No NVIDIA driver" in capsys.readouterr().err
    assert cli.main(["measure", "nonsense", "--out", str(out)]) == cli.BAD_ARGUMENTS
    assert cli.main(["measure", "softmax_row", "--out", str(tmp_path / "no" / "gpu.json")]) == cli.BAD_ARGUMENTS
    assert not out.exists()
    with pytest.raises(ParameterError, match="kernel=nonsense"):
        sizes("nonsense")
