"""Every instruction is of the line of the kernel that it comes from; PTX and SASS tell the same story."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from triton import knobs

from explain.chapters.flash_attention import tiles
from explain.compile import handler, service
from explain.compile.listing import KINDS, Instruction, Listing, counts, packed, unpacked
from explain.compile.service import Compiler, listing_path
from explain.gpus import GPUS
from explain.recordings import tile_costs
from explain.workers import WorkerFailed
from kernels.catalog import KERNELS, of_kind

PTX = """\
.visible .entry some_kernel(.param .u64 a)
{
	.reg .b32 %r<9>;
	.loc	1 31 0                          // mine.py:31:0
$L__tmp0:
	ld.param.b64 	%rd1, [a];
	.loc	1 33 20                         // mine.py:33:20
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
$L__BB0_2:
	.loc	2 170 27                        // standard.py:170:27 @[ standard.py:191:40 @[ mine.py:34:9 ] ]
	max.f32 	%r5, %r1, %r2;
	.loc	2 263 15                        // standard.py:263:15 @[ mine.py:35:9 ]
	add.f32 	%r6, %r5, %r3;
	.loc	2 263 15                        // standard.py:263:15 @[ mine.py:36:9 ]
	add.f32 	%r6, %r5, %r3;
	.loc	1 0 20                          // mine.py:0:20
	ex2.approx.f32 	%r7, %r6;
	st.shared.b32 [%r8], %r7; // a comment
	bra $L__BB0_2;
}
	.file	1 "/place/mine.py"
	.file	2 "/elsewhere/standard.py"
"""
SASS = """\
.text.some_kernel:
	//## File "/place/mine.py", line 33
        /*0010*/              @P1 LDG.E.128 R4, desc[UR4][R2.64] ;
	//## File "/elsewhere/standard.py", line 170
        /*0020*/                   FMNMX R5, R4, R5, !PT ;
	//## File "/elsewhere/standard.py", line 263
        /*0030*/                   FADD R6, R5, R6 ;
	//## File "/unknown/other.py", line 5
        /*0040*/                   MUFU.EX2 R7, R6 ;
.L_x_0:
        /*0050*/                   BRA `(.L_x_0);
"""
SOURCE = "@triton.jit\n" + "\n".join(f"    line {n}" for n in range(31, 38))


def made() -> Listing:
    return Listing.of("some_kernel", "/place/mine.py", 30, SOURCE, PTX, SASS)


def test_an_instruction_of_a_called_function_is_of_the_line_that_calls_it():
    code = {one.text.split()[-1]: one for one in made().ptx}
    by_text = {one.text: one.lines for one in made().ptx}
    assert by_text["max.f32 %r5, %r1, %r2"] == (34,)
    assert code["]"].lines == (33,)
    assert [one.lines for one in made().ptx if one.text.startswith("add")] == [(35,), (36,)]
    assert by_text["ex2.approx.f32 %r7, %r6"] == ()  # line 0: the compiler does not say


def test_sass_has_only_the_innermost_line_so_ptx_says_whose_it_is_and_where_several_call_all_are_given():
    load, maximum, add, exponential = made().sass  # without the branch to itself behind the last one
    assert load == Instruction("@P1 LDG.E.128 R4, desc[UR4][R2.64]", "global load", (33,))
    assert maximum.lines == (34,)
    assert add.lines == (35, 36)
    assert exponential.lines == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 0x10, %r3", "copy global → shared"),
        ("cp.async.wait_group 0", "wait"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 0, 1, 1, 0, 0", "matmul"),
        ("wgmma.wait_group.sync.aligned 0", "wait"),
        ("@%p1 st.global.b32 [ %rd1 + 0 ], { %r1 }", "global store"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2]", "shared load"),
        ("st.local.b32 [%rd1], %r1", "spill"),
        ("setp.lt.s32 %p1, %r1, %r2", "integers, addresses"),
        ("setp.lt.f32 %p1, %r1, %r2", "float arithmetic"),
        ("shfl.sync.bfly.b32 %r1, %r2, 2, 31, -1", "between threads"),
    ],
)
def test_a_ptx_instructions_kind(text, kind):
    ptx = f"f()\n{{\n\t.loc\t1 31 0 // mine.py:31:0\n\t{text};\n}}\n"
    (one,) = Listing.of("f", "mine.py", 30, SOURCE, ptx, "").ptx
    assert (one.kind, one.lines) == (kind, (31,))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LDGSTS.E.BYPASS.128 [R1], [R2.64]", "copy global → shared"),
        ("UTMALDG.4D [UR8], [UR4]", "copy global → shared"),
        ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT", "matmul"),
        ("HMMA.16816.F32 R4, R8, R12, R4", "matmul"),
        ("LDGDEPBAR", "wait"),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "wait"),
        ("LDSM.16.M88.4 R4, [R1]", "shared load"),
        ("@!PT LDS RZ, [RZ]", "never runs (@!PT)"),
        ("@!P2 LDS R3, [R4]", "shared load"),
        ("STL [R1], R2", "spill"),
        ("MUFU.EX2 R1, R2", "exponential"),
        ("MUFU.RCP R1, R2", "float arithmetic"),
        ("FLO.U32 R1, R2", "integers, addresses"),
        ("HFMA2.MMA R1, -RZ, RZ, 0, 0", "float arithmetic"),
        ("FENCE.VIEW.ASYNC.S", "wait"),
        ("LDC R1, c[0x0][0x28]", "integers, addresses"),
        ("RED.E.ADD.F32 [R2.64], R1", "global store"),
    ],
)
def test_a_sass_instructions_kind(text, kind):
    (one,) = Listing.of("f", "mine.py", 30, SOURCE, "", f"        /*0010*/  {text} ;\n").sass
    assert one.kind == kind


def test_a_file_of_listings_gives_them_back():
    assert packed(unpacked(packed([made(), made()]))) == packed([made(), made()])
    for broken in (b"", b"x", gzip.compress(b'[{"kernel": 1}]'), packed([made()])[:-9]):
        with pytest.raises((OSError, EOFError, ValueError, KeyError, TypeError)):
            unpacked(broken)


# Of real kernels


@pytest.fixture
def compiler(monkeypatch, tmp_path, compile_workers):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(service, "_records", lambda: ({}, {}))
    made = Compiler()
    made._pool = compile_workers
    return made


def test_a_compiled_tile_has_the_listing_of_every_launch_and_another_process_has_it_from_the_disk(compiler):
    experiment = tiles.compiled_as("attention_standard", tiles.opening("attention_standard"))
    assert compiler.listings(experiment, 90) == ()
    cost = compiler.compile(experiment, 90)
    listings = compiler.listings(experiment, 90)
    assert [one.kernel for one in listings] == [launch.kernel for launch in cost.launches]
    for one in listings:
        last = one.first_line + len(one.source.splitlines())
        for code in (one.ptx, one.sass):
            assert code
            assert all(one.first_line <= line < last for i in code for line in i.lines)
        assert all(i.lines for i in one.sass if i.kind != "label")
    assert packed(Compiler().listings(experiment, 90)) == packed(listings)
    assert compiler.listings(experiment, 80) == ()


def test_an_edited_kernels_listing_shows_the_edited_line(compiler):
    experiment = tiles.compiled_as(
        "flash_attention~acc_not_rescaled", tiles.opening("flash_attention~acc_not_rescaled")
    )
    compiler.compile(experiment, 90)
    (one,) = compiler.listings(experiment, 90)
    assert "acc = acc * alpha[:, None]" not in one.source
    assert all(i.lines for i in one.sass if i.kind != "label")


def test_without_a_disassembler_there_is_ptx_and_it_is_said_why_no_sass(monkeypatch):
    class Gone:
        @property
        def path(self) -> str:
            raise RuntimeError("Cannot find nvdisasm")

    monkeypatch.setattr(knobs, "nvidia", type("Knobs", (), {"nvdisasm": Gone()})())
    sass, error = handler._disassembled(b"cubin")
    assert sass == ""
    assert "Cannot find nvdisasm" in error
    assert list(Listing.of("f", "mine.py", 30, SOURCE, PTX, sass, error).codes()) == ["PTX"]


@pytest.mark.parametrize("capability", sorted({gpu.compute_capability for gpu in GPUS.values()}))
def test_what_the_page_opens_on_is_shipped_and_its_counts_are_the_tiles(capability):
    experiment = tiles.compiled_as("flash_attention", tiles.opening("flash_attention"))
    assert (experiment, capability) in tile_costs.listed()
    (one,) = unpacked(listing_path(experiment, capability).read_bytes())
    p, ptx, sass = experiment.values, counts(one.ptx), counts(one.sass)
    for kind in ("global load", "global store", "copy global → shared", "matmul", "exponential"):
        assert ptx.get(kind, 0) == sass.get(kind, 0), kind
    assert set(sass) <= set(KINDS)
    (line,) = (
        number
        for number, text in enumerate(one.source.splitlines(), start=one.first_line)
        if "p = tl.exp(s - m_safe" in text
    )
    exponentials = [i for i in one.sass if i.kind == "exponential" and line in i.lines]
    assert len(exponentials) == p["block_m"] * p["block_n"] / (tiles.NUM_WARPS * 32)
    assert (sass.get("spill", 0) > 0) == (capability == 75)


def test_the_shipped_listings_are_of_the_kernel_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    experiment, capability = tile_costs.listed()[0]
    assert Compiler().listings(experiment, capability)
    changed = replace(KERNELS["flash_attention"], call="flash_attention_exp2")
    monkeypatch.setattr(service, "KERNELS", {**KERNELS, "flash_attention": changed})
    service._records.cache_clear()
    try:
        assert Compiler().listings(experiment, capability) == ()
    finally:
        service._records.cache_clear()


@pytest.mark.parametrize("kernel", of_kind("taught", "broken"))
def test_every_kernel_has_settings_to_choose_and_opens_on_one_of_them(kernel):
    allowed, start = tiles.settings(kernel), tiles.opening(kernel)
    assert start.keys() == allowed.keys()
    assert all(start[name] in values for name, values in allowed.items())
    experiment = tiles.compiled_as(kernel, start)
    assert all(experiment.values[name] == value for name, value in start.items())


def test_a_failed_compilation_leaves_no_listing(compiler):
    thin = tiles.tile(16, 16).with_(block_n=8)
    with pytest.raises(WorkerFailed):
        compiler.compile(thin, 90)
    assert compiler.listings(thin, 90) == ()
