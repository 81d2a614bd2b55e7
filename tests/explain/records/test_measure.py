"""The whole set on the GPU at hand: kept point by point, gone on with, and what misses is said."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from explain import cli, doctor
from explain.commands import console
from explain.commands import measure as measure_command
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment, ParameterError
from explain.gpus import GPUS
from explain.records import file, measure, registry
from explain.records.model import Origin
from explain.records.plans import MEASURED, PLANS, Plan, sizes
from explain.workers import WorkerError, WorkerFailed, WorkerSpec
from kernels.inputs import shapes
from kernels.parameters import ITEM_BYTES
from tests.explain.device.fake_worker import WHERE

FAKE = WorkerSpec("device", "tests.explain.device.fake_worker:handle", default_seconds=120, address_space_limit=False)
ONLINE, FLASH = Experiment.of("softmax_online"), Experiment.of("flash_attention")
BOTH = Plan("both", "two", (ONLINE, FLASH))


@pytest.fixture(scope="module")
def fake() -> Iterator[Engine]:
    engine = Engine(device=FAKE)
    yield engine
    engine.close()


@pytest.fixture
def engine(fake, monkeypatch) -> Engine:
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(True, "", WHERE.__dict__))
    return fake


@pytest.fixture
def lines() -> list[str]:
    return []


def test_the_engine_gives_what_is_asked_and_where_counters_cannot_be_read_the_rest_and_why(engine):
    point = engine.point(FLASH)
    assert (point.counters.cold.dirty_bytes, point.timing.median_ms, point.peak_bytes) == (24, 1.0, 4096)
    assert engine.point(FLASH, counters=False).counters is None
    refused = engine.point(FLASH.with_(seed=7))
    assert refused.counters is None
    assert refused.timing is not None
    assert "NVreg_RestrictProfilingToAdminUsers=0" in refused.why
    with pytest.raises(WorkerFailed, match="shared memory"):
        engine.point(FLASH.with_(seed=1))
    assert engine.roofs()["hbm"].per_second == 4e12


@pytest.mark.parametrize(
    ("seed", "ok", "words"),
    [(0, True, ""), (7, False, "NVreg_RestrictProfilingToAdminUsers=0"), (4, False, "abort")],
    ids=["counted", "no permission", "worker killed"],
)
def test_the_doctor_says_whether_counters_can_be_read_and_what_to_do(engine, monkeypatch, seed, ok, words):
    monkeypatch.setattr(doctor, "COUNTED", ONLINE.with_(seed=seed))
    finding = doctor._counters(engine)
    assert finding.ok is ok
    assert words in finding.remedy


def test_a_plan_becomes_one_file_that_is_read_back(engine, tmp_path, lines):
    outcome = measure.measure(engine, [BOTH, Plan("roofs", "", roofs=True)], tmp_path, lines.append)
    assert outcome.path == tmp_path / "test-gpu.json"
    record = file.load(outcome.path)
    assert record == outcome.record
    assert set(record.points) == {ONLINE.key, FLASH.key}
    assert record.roofs["hbm"].unit == "B/s"
    assert (outcome.measured, outcome.kept, outcome.missed) == (2, 0, ())
    assert "[2/2] flash_attention: 1 ms" in lines[-1]
    assert "about 0 s left" in lines[-1]


def test_what_is_there_is_not_measured_again_and_what_more_is_asked_is_added(engine, tmp_path, lines):
    timed = replace(BOTH, experiments=(ONLINE,), counters=False)
    measure.measure(engine, [timed], tmp_path, lines.append)
    outcome = measure.measure(engine, [timed, Plan("", "", (FLASH,))], tmp_path, lines.append)
    assert (outcome.measured, outcome.kept) == (1, 1)
    counted = replace(timed, counters=True, timing=False)
    outcome = measure.measure(engine, [counted], tmp_path, lines.append)
    assert outcome.measured == 1
    assert outcome.record.points[ONLINE.key].holds(counters=True, timing=True)


def test_why_warps_wait_is_counted_where_a_plan_asks_and_kept_when_another_measures_anew(engine, tmp_path, lines):
    plain = replace(BOTH, experiments=(ONLINE,))
    counters = measure.measure(engine, [plain], tmp_path, lines.append).record.points[ONLINE.key].counters
    assert counters
    assert counters.stalls is None
    asked = measure.measure(engine, [replace(plain, stalls=True)], tmp_path, lines.append)
    assert asked.measured == 1
    counted = asked.record.points[ONLINE.key].counters
    assert counted
    assert counted.stalls
    assert counted.stalls.passes == 7
    assert "stalls in 7 passes" in lines[-1]
    assert measure.measure(engine, [replace(plain, stalls=True)], tmp_path, lines.append).kept == 1
    point = replace(asked.record.points[ONLINE.key], origin=Origin(WHERE, "", "other"))
    file.save(tmp_path / "test-gpu.json", asked.record.with_(point))
    again = measure.measure(engine, [plain], tmp_path, lines.append)
    assert again.measured == 1
    counted = again.record.points[ONLINE.key].counters
    assert counted
    assert counted.stalls


@pytest.mark.parametrize("changed", ["code", "torch"])
def test_a_point_of_other_code_or_other_versions_is_measured_anew(engine, tmp_path, lines, changed):
    record = measure.measure(engine, [BOTH], tmp_path, lines.append).record
    point = record.points[ONLINE.key]
    where = replace(WHERE, torch="1") if changed == "torch" else WHERE
    origin = Origin(where, "", "other" if changed == "code" else ONLINE.entry.code)
    file.save(tmp_path / "test-gpu.json", record.with_(replace(point, origin=origin)))
    outcome = measure.measure(engine, [BOTH], tmp_path, lines.append)
    assert (outcome.measured, outcome.kept) == (1, 1)


def test_a_killed_run_keeps_what_it_has(engine, tmp_path, lines, monkeypatch):
    def killed(line: str) -> None:
        if line.startswith("[1/2]"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure.measure(engine, [BOTH], tmp_path, killed)
    assert list(file.load(tmp_path / "test-gpu.json").points) == [ONLINE.key]
    assert measure.measure(engine, [BOTH], tmp_path, lines.append).measured == 1


def test_what_missed_is_in_the_file_with_the_reason_and_is_tried_again(engine, tmp_path, lines):
    dead, refused = ONLINE.with_(seed=4), ONLINE.with_(seed=7)
    plan = Plan("", "", (dead, refused, FLASH))
    outcome = measure.measure(engine, [plan], tmp_path, lines.append)
    record = file.load(outcome.path)
    assert "abort" in record.points[dead.key].why
    assert "ERR_NVGPUCTRPERM" in record.points[refused.key].why
    assert record.points[refused.key].timing is not None
    assert record.points[FLASH.key].why == ""
    assert len(outcome.missed) == 2
    assert measure.measure(engine, [plan], tmp_path, lines.append).measured == 2


def test_roofs_that_cannot_be_measured_leave_the_points(engine, tmp_path, lines, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise WorkerError("no room")

    monkeypatch.setattr(Engine, "roofs", fails)
    outcome = measure.measure(engine, [Plan("", "", (FLASH,), roofs=True)], tmp_path, lines.append)
    assert outcome.missed == (("roofs", "no room"),)
    assert outcome.measured == 1


def test_a_file_that_cannot_be_believed_is_left_alone(engine, tmp_path, lines):
    (tmp_path / "test-gpu.json").write_text("damaged")
    with pytest.raises(file.RecordFileError, match="damaged"):
        measure.measure(engine, [BOTH], tmp_path, lines.append)
    assert (tmp_path / "test-gpu.json").read_text() == "damaged"


# The plans


@pytest.mark.parametrize("kernel", MEASURED)
def test_a_kernel_is_measured_at_three_sizes_beyond_l2(kernel):
    experiments = sizes(kernel)
    assert len(set(experiments)) == 3
    assert set(experiments) <= set(PLANS["levels"].experiments)
    for experiment in experiments:
        p = experiment.values
        inputs = sum(map(math.prod, shapes(experiment.entry.family, p).values()))
        # A loss kernel's logits are many times its inputs, and a larger W takes the interpreter an hour.
        beyond = GPUS["H200"].l2_bytes if experiment.entry.family == "loss" else 96e6
        assert inputs * ITEM_BYTES[p["dtype"]] > beyond


def test_an_experiment_of_two_plans_is_one_task_that_asks_for_both():
    first = Plan("a", "", (ONLINE, FLASH), counters=False)
    second = Plan("b", "", (FLASH,), timing=False)
    assert measure.tasks([first, second]) == [measure.Task(ONLINE, False, True), measure.Task(FLASH, True, True)]
    assert measure.tasks([first, second], ["flash_attention"]) == [measure.Task(FLASH, True, True)]


def test_times_come_first_so_that_a_first_call_is_one():
    assert next(iter(PLANS)) == "times"
    with pytest.raises(ParameterError, match="kernel=nonsense"):
        sizes("nonsense")


# The command


@pytest.fixture
def command(fake, monkeypatch):
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(True, "", WHERE.__dict__))
    monkeypatch.setattr(measure_command, "Engine", lambda: fake)
    monkeypatch.setattr(Engine, "close", lambda self: None)
    plans = {"both": BOTH, "one": replace(BOTH, name="one", experiments=(ONLINE,))}
    monkeypatch.setattr(measure_command, "PLANS", plans)


def test_measure_writes_the_gpus_file_in_the_folder(command, tmp_path, capsys):
    assert cli.main(["measure", "--out", str(tmp_path / "new")]) == 0
    assert len(file.load(tmp_path / "new" / "test-gpu.json").points) == 2
    assert "2 measured, 0 kept, 0 " in capsys.readouterr().out
    assert cli.main(["measure", "--plan", "one", "--out", str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1


def test_without_a_folder_it_is_where_the_pages_look(command, tmp_path, monkeypatch):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    assert cli.main(["measure", "flash_attention"]) == 0
    (registry.own_folder() / "broken.json").write_text("{}")
    found, refused = registry.entries()
    assert found[0].label == "Test GPU · measured on this machine"
    assert list(found[0].record.points) == [FLASH.key]
    assert found[1].record == registry.recorded()
    assert "explain measure" in refused["broken.json"]


def test_what_missed_ends_the_command_with_failed(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measure_command, "PLANS", {"both": replace(BOTH, experiments=(ONLINE.with_(seed=7), FLASH))})
    assert cli.main(["measure", "--out", str(tmp_path)]) == console.FAILED
    said = capsys.readouterr().out
    assert "missed: softmax_online: This user may not read" in said
    assert "2 measured, 0 kept, 1 " in said


def test_without_a_gpu_or_of_no_kernel_or_onto_a_damaged_file_it_says_so(command, tmp_path, monkeypatch, capsys):
    assert cli.main(["measure", "nonsense", "--out", str(tmp_path)]) == console.BAD_ARGUMENTS
    assert "must be one of flash_attention, softmax_online" in capsys.readouterr().err
    (tmp_path / "test-gpu.json").write_text("{}")
    assert cli.main(["measure", "--out", str(tmp_path)]) == console.FAILED
    assert "Move it away" in capsys.readouterr().err
    monkeypatch.setattr(Engine, "device", lambda self: DeviceStatus(False, "No NVIDIA driver on this machine."))
    assert cli.main(["measure", "--out", str(tmp_path / "none")]) == console.FAILED
    assert "No NVIDIA driver" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
