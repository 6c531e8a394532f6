"""Kernels: what is published about them is matched digest for digest; what runs on a CPU agrees with the reference."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from kernelcat import files, grid, kernels, manifests
from kernelcat.errors import KernelcatError
from kernelcat.identity import digest
from kernelcat.kernel import Case, Dialect, Provider, Tensor, as_tuple, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER, TORCH

PUBLISHED = Path(__file__).parents[2] / "shared" / "identity"

OPERATIONS = {
    "cross_entropy": "sha256:14cde8c616cb03e202c3c3d33e9df412d0212cef02777cf582c31fa9756a7e34",
    "distill_cosine_loss": "sha256:3afad1b6dfc51eed16f7ad0bbdaf0cd0d0166699ad3a123d7727fb06417e702d",
    "distill_jsd_loss": "sha256:4ce30dbf7da705e4eac1f5d2dce3a47ea0174fae11af426c422e0064be63eac5",
    "embedding": "sha256:25fa6855b83f75d56b874872f206fb972427b0ed35c787d4ac427f0b57f37465",
    "fused_add_rms_norm": "sha256:770a9f88bcb40975cec139380f7c19381b220adf1c36431ceb26ffdba7c8d7a3",
    "fused_linear_cpo_loss": "sha256:9f18d831dd7f05e8b12be1ab8f5822e7043f746854484932c949da1127afc09f",
    "fused_linear_cross_entropy": "sha256:4713ab4d824fd7d623a38cc8bc476ff80d6f27afbd188ff065991d0f4f911c6c",
    "fused_linear_grpo_loss_sequence": "sha256:7643fcc6ed3ef16ee05591b7d2f94d9c681d22ee73bfbf5407b62ccd96244d0f",
    "fused_linear_grpo_loss_token": "sha256:7643fcc6ed3ef16ee05591b7d2f94d9c681d22ee73bfbf5407b62ccd96244d0f",
    "fused_linear_jsd": "sha256:71138de338d4a1a85e751a2db3bd1a1c08f93a234a9ab0cfd9c5ab35eb180b72",
    "fused_linear_orpo_loss": "sha256:78124dd4d43a8979a0e362820fadc5ef5c159428015c94c18750bfdd5cfeb016",
    "fused_linear_simpo_loss": "sha256:f90f215423e3cc037f25ad525bfccd742cc59928d9ab32cd693143c1091f8ac6",
    "fused_moe": "sha256:cdde945e670f0a8f46a1941295d2df4a8c2c5c5013bb82dee7487ebb33659d18",
    "fused_neighborhood_attention": "sha256:c262aae772acc262dd7e7d7ca29a8d6014a71805095c5e1ab1d7446e788daaa3",
    "geglu": "sha256:37d2efb3485aaed1b4e4f05396c66543fc6cc4881351ffe5f0017b121ba4df3e",
    "group_norm": "sha256:a5be9b2fb0c7941e7d6d4eba1be9c9b07195a9e70ceda6036eef65b3cfec1ad1",
    "jsd": "sha256:eccbf4150e60ad41ce52a4bd06fa582b8b4d5ed394fcd096f069b08eadf420e6",
    "kl_div": "sha256:6304060bf19ad78dbe0775fe45e942d7c2d9b4c9c474267e37bc5d8772a2c9db",
    "kto_loss": "sha256:b10257d6984bff0331fb98f4789b53522adef23468049aa6a824f66430419f07",
    "layer_norm": "sha256:bc260cced62b2e2874a65a648a5a07ec250fe80ff7cf45f8452b2cd130a252a0",
    "llama4_rope": "sha256:224b946feeec7a4e920c67c6b35ed37cfa1adb52183ea917d70548419e0c6a3d",
    "megatron_cross_entropy": "sha256:9efef198c06e8d940f15c6559883aede757d9608afacaea9803aab5ffbacd44a",
    "megatron_rms_norm": "sha256:2719cde9f6516c422f4ef2bc3eb251f149b034b6bd16fb674db029b9374e822e",
    "megatron_swiglu": "sha256:2a90dbd952cea3e2cc1fa34fe620380b7e551a6880b30623aa876dd24cd072db",
    "multi_token_attention": "sha256:daed040c2d774680d72fb0502074e800085dc4a87371ae4da62b78b8db9f1935",
    "relu_squared": "sha256:ddb7fe09e7ccecb7a304760e5151718e336bc3241e991aa8926ec8deed368016",
    "rms_norm": "sha256:8ba8d8c445e8bd111c485ff037391ce3ba744145e55c2b755cf1a312600e8260",
    "rope": "sha256:e655a95629867bb20ea2d0e6b41bbde013db93f7fca6deb9a49b6ee8b4bc31a5",
    "softmax": "sha256:48e06011fd0c87d0367834dfaff4fc8e12077a2f2815e0498c88a65b3ada70bf",
    "sparse_multi_token_attention": "sha256:daed040c2d774680d72fb0502074e800085dc4a87371ae4da62b78b8db9f1935",
    "sparsemax": "sha256:f124d7a3760e8185a7c01d11bac52ecbccbfff7725c410552c4f3871e6c4ed57",
    "swiglu": "sha256:9f5873818070a40a4362749c3c53fd90f23c826f537813527353899853f8496d",
    "tiled_geglu": "sha256:37d2efb3485aaed1b4e4f05396c66543fc6cc4881351ffe5f0017b121ba4df3e",
    "tiled_swiglu": "sha256:9f5873818070a40a4362749c3c53fd90f23c826f537813527353899853f8496d",
    "tvd": "sha256:ae6b46f63ebbe05fd99a0a300e677c432bf7b59aad42e2c3060aa0aaa924daec",
}

EPS = {"eps": 1e-6}


def loaded(name: str):
    return kernels.load(kernels.files()[name])


# ---- published identities


@pytest.mark.parametrize(("name", "published"), OPERATIONS.items())
def test_operations_have_their_published_digests(name, published):
    assert digest(manifests.operation(loaded(name))) == published


@pytest.mark.parametrize(
    ("name", "axes", "dtype", "scalars", "published"),
    [
        (
            "cross_entropy",
            {"tokens": 16384, "vocab": 4096},
            "fp32",
            {},
            "sha256:df069011a833333c75db108c9ab4f5218a0504fc94981ec3a1241be70443d1f1",
        ),
        (
            "fused_linear_cross_entropy",
            {"tokens": 4096, "hidden": 4096, "vocab": 128256},
            "bf16",
            {},
            "sha256:b17fccb20c833fa74d74923d9506d48ea020a016a9072c3066449aead9eb97db",
        ),
        (
            "layer_norm",
            {"rows": 4096, "hidden": 1024},
            "fp32",
            EPS,
            "sha256:739a08d860de11be4e38985f0058114e96192df54b708b9df0bb6041ff6294ba",
        ),
        (
            "rms_norm",
            {"rows": 2048, "hidden": 1024},
            "bf16",
            EPS,
            "sha256:313c3bfc64a32404c5f78626361faa87ec35da0bc611f292b258bb43f929e4f1",
        ),
        (
            "rms_norm",
            {"hidden": 16384, "rows": 2048},
            "bf16",
            EPS,
            "sha256:3d726cc1123efb456ad82edf39b87426ebb1b70cc0b642f68e92e526607abee6",
        ),
        (
            "rope",
            {"seq": 2048, "hidden": 512, "q_heads": 32, "kv_heads": 8},
            "bf16",
            {},
            "sha256:1415fc0b1b53aa8f16a41dfe92a66a1584b2d0b9523b0058543ea3a8ac7b5314",
        ),
        (
            "softmax",
            {"rows": 2048, "hidden": 128},
            "fp32",
            {},
            "sha256:a95cdf9fdf1be9a0a58acbe6d2e7381f4d43858343d1f6e08f6072b783823577",
        ),
        (
            "swiglu",
            {"seq": 1024, "batch": 4, "hidden": 4096, "intermediate": 11008},
            "bf16",
            {},
            "sha256:e4af91285aeafe4dff8494ab87c910297747d96d6ddca95bfef288f160b4d03d",
        ),
    ],
)
def test_workloads_have_their_published_digests(name, axes, dtype, scalars, published):
    assert digest(manifests.workload(loaded(name), Case(axes, dtype, scalars))) == published


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published identities are not beside the repository (../shared/identity)"
)
def test_every_published_workload_is_reproduced():
    cases = json.loads((PUBLISHED / "sample-workloads.json").read_text())
    found = {}
    for published, entry in cases.items():
        name, _, key = entry["case"].partition("/")
        if name in OPERATIONS:
            scalars = {scalar: said["value"] for scalar, said in entry["spec"].get("scalars", {}).items()}
            case = Case(entry["spec"]["axes"], key.rpartition("-")[2], scalars)
            found[published] = digest(manifests.workload(loaded(name), case))
            assert case.key == key
    assert len(found) == len(cases)
    assert [pair for pair in found.items() if pair[0] != pair[1]] == []


def test_the_default_scalars_are_those_of_the_published_workloads():
    found = {name: kernel.scalars for name, kernel in kernels.load_all().items() if kernel.scalars}
    norms = ("fused_add_rms_norm", "group_norm", "layer_norm", "megatron_rms_norm", "modulated_rms_norm")
    eps = (*norms, "attn_res", "poly_norm", "rms_norm")
    beta = ("dpo_loss", "grpo_loss_kernel_sequence", "grpo_loss_kernel_token", "kto_loss")
    distillation = {"weight_hard_loss": 0.5, "weight_soft_loss": 0.5}
    assert found == dict.fromkeys(eps, EPS) | dict.fromkeys(beta, {"beta": 0.1}) | {
        "distill_cosine_loss": distillation,
        "distill_jsd_loss": distillation,
        "fused_linear_jsd": {"beta": 0.5},
        "mhc_coeffs": {"tmax": 20, "rms_eps": 1e-6, "pre_eps": 0.0, "sinkhorn_eps": 1e-6, "post_mult": 2.0},
    }


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("cross_entropy", [{"B", "T"}]),
        ("fused_linear_cross_entropy", [{"H", "V", "dtype", "mode"}]),
        ("layer_norm", [{"M", "dtype", "eps"}]),
        ("rms_norm", [{"M", "dtype", "eps"}]),
        (
            "rope",
            [
                {"dtype", "num_kv_heads", "num_q_heads", "seq_len"},
                {"dtype", "hidden_size", "num_kv_heads", "num_q_heads"},
            ],
        ),
        ("softmax", [{"M", "dtype"}]),
        ("fused_linear_jsd", [{"H", "V", "dtype", "mode"}]),
        ("jsd", [{"B", "T"}, {"vocab_size", "bsz", "seq_len"}]),
        ("megatron_rms_norm", [{"S", "B"}]),
        (
            "fused_moe",
            [
                {"sweep_dim", "E", "H", "K", "dtype", "intermediate_dim"},
                {"sweep_dim", "T", "H", "K", "dtype", "intermediate_dim"},
            ],
        ),
        ("swiglu", [{"B", "dtype", "hidden_act", "hidden_size", "intermediate_size"}]),
    ],
)
def test_dialects_have_the_keys_of_the_published_rows(name, keys):
    assert [dialect.keys for dialect in loaded(name).dialects[: len(keys)]] == keys


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_row_has_two_dialects(name):
    known = [(dialect.x, dialect.keys) for dialect in loaded(name).dialects]
    assert known and len(set(known)) == len(known)


# ---- what runs on a CPU

PROGRAM = """
import json, sys
from kernelcat import interpreter  # first, because it has to come before triton
import torch
from kernelcat import correctness, kernels
from kernelcat.grid import Configuration
from kernelcat.kernel import Case, as_tuple

def results(kernel, case, compute, dtype):
    inputs = {
        name: (value.detach().to(dtype).requires_grad_(value.requires_grad) if value.is_floating_point() else value)
        for name, value in correctness.make_inputs(kernel, case, "cpu", seed=1).items()
    }
    inputs = {name: torch.nn.Parameter(value) if value.requires_grad else value for name, value in inputs.items()}
    outputs = as_tuple(compute(inputs))
    found = {name: output.detach().clone() for name, output in zip(kernel.outputs, outputs, strict=True)}
    torch.manual_seed(2)
    torch.autograd.backward(outputs, [torch.randn(output.shape).to(output.dtype) for output in outputs])
    return found | {f"gradient of {name}": value.grad for name, value in inputs.items() if value.requires_grad}

def error(found, expected):
    if (tuple(found.shape) or (1,)) != (tuple(expected.shape) or (1,)) or found.dtype != torch.float32:
        return f"{found.dtype} {list(found.shape)}"
    return float((found.reshape(expected.shape) - expected).abs().max() / expected.abs().max())

def errors(kernel, case, provider):
    expected = results(kernel, case, lambda inputs: kernel.reference(**inputs, **kernel.keywords(case)), torch.float64)
    prepare = kernel.providers[provider].prepare
    found = results(kernel, case, lambda inputs: prepare(**inputs, **kernel.keywords(case))(), torch.float32)
    return {name: error(found[name], expected[name]) for name in found}

found = []
for values in json.loads(sys.argv[1]):
    configuration = Configuration.from_json(values)
    kernel = kernels.load(kernels.files()[configuration.kernel])
    try:
        found.append(errors(kernel, configuration.case, configuration.provider))
    except Exception as failure:
        found.append(repr(failure))
print(json.dumps(found))
"""

SMOKE = grid.expand(
    files.load(ROOT / "config/config.yaml") | {"suite": "smoke", "device": "cpu"}, suites=ROOT / "config/suites"
).configurations


@pytest.fixture(scope="module")
def cpu_errors() -> dict:
    """By kernel and provider, each result's largest error relative to the largest value of the fp64 reference."""
    cells = json.dumps([cell.as_json() for cell in SMOKE])
    environment = os.environ | {"PYTHONPATH": str(kernels.FOLDER.parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM, cells], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {(cell.kernel, cell.provider): errors for cell, errors in zip(SMOKE, found, strict=True)}


@pytest.mark.parametrize(("name", "provider"), [(cell.kernel, cell.provider) for cell in SMOKE])
def test_every_provider_of_the_cpu_agrees_with_the_reference(cpu_errors, name, provider):
    kernel, errors = loaded(name), cpu_errors[name, provider]
    assert isinstance(errors, dict), errors
    gradients = [f"gradient of {name}" for name, tensor in kernel.inputs.items() if tensor.differentiable]
    assert list(errors) == [*kernel.outputs, *gradients]
    assert all(isinstance(error, float) and error < 1e-4 for error in errors.values()), errors


def test_what_does_not_run_on_a_cpu_says_why():
    """Each kernel's Liger provider runs through the interpreter, or names what is missing there."""
    silent = {"dyt", "dyt_without_beta", "mlp"}
    for name, kernel in kernels.load_all().items():
        for provider, value in kernel.providers.items():
            if provider.startswith("liger") and (reason := value.unavailable("cpu")):
                assert name in silent and len(reason.split()) > 3, (name, provider, reason)


def test_no_two_providers_of_a_kernel_are_one_implementation():
    """The digest of a measured implementation covers library, symbol and interface."""
    for name, kernel in kernels.load_all().items():
        marks = [(p.library and p.library.project["name"], p.symbol, p.interface) for p in kernel.providers.values()]
        assert len(set(map(str, marks))) == len(marks), (name, marks)


def test_measured_operations_tell_apart_what_published_ones_do_not():
    """Kernels that compute one function may share an operation: gated MLPs, tiled or not."""
    found = {}
    for name, kernel in kernels.load_all().items():
        if kernel.providers:
            found.setdefault(digest(manifests.operation(kernel, measured=True)), []).append(name)
    assert sorted(names for names in found.values() if len(names) > 1) == [
        ["geglu", "tiled_geglu"],
        ["mlp", "swiglu", "tiled_swiglu"],
    ]


# ---- kernel files


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder for kernel files of one's own; what is imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("kernelcat_own_kernels.")]:
        del sys.modules[name]


KERNEL_FILE = """
from kernelcat.kernel import Kernel, Provider, tensor

KERNEL = Kernel(
    title="Double",
    slug="double",
    family="double",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: 2 * x,
    providers={"plain": Provider(lambda x: lambda: x + x)},
)
"""


def test_the_files_of_the_project_are_the_kernels():
    assert kernels.files().keys() >= OPERATIONS.keys()
    assert kernels.files("") == kernels.files()


def test_own_kernels_stand_beside_those_of_the_project(own):
    (own / "double.py").write_text(KERNEL_FILE)
    (own / "_helper.py").write_text("raise ValueError")
    (own / "notes.txt").write_text("")
    found = kernels.load_all(own)
    assert found.keys() >= {*OPERATIONS, "double"}
    assert found["double"].title == "Double"


def test_own_kernels_import_their_helpers_by_name(own):
    (own / "_twice_title.py").write_text("TITLE = 'Twice'")
    (own / "double.py").write_text("from _twice_title import TITLE\n" + KERNEL_FILE.replace('"Double"', "TITLE"))
    assert kernels.load(own / "double.py").title == "Twice"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("My-Kernel.py", KERNEL_FILE, "{file}: expected a file name of a-z, 0-9 and _ that begins with a letter"),
        ("2x.py", KERNEL_FILE, "{file}: expected a file name of a-z, 0-9 and _ that begins with a letter"),
        ("softmax.py", KERNEL_FILE, "{file}: the kernel 'softmax' exists already in {project}/softmax.py"),
        ("none.py", "", "{file}: expected KERNEL = Kernel(...), found NoneType"),
        ("text.py", "KERNEL = 'rms_norm'", "{file}: expected KERNEL = Kernel(...), found str"),
        ("raises.py", "raise ValueError('one\\ntwo')", "{file}: cannot be read: ValueError: one"),
        ("silent.py", "raise ValueError", "{file}: cannot be read: ValueError: "),
        ("lost.py", "import no_such_module", "{file}: cannot be read: ModuleNotFoundError: No module named"),
        ("typo.py", "KERNEL = Kernel(", "{file}: cannot be read: SyntaxError: '(' was never closed"),
        ("typo2.py", KERNEL_FILE.replace("slug", "slog"), "{file}: cannot be read: TypeError: "),
        ("binary.py", "KERNEL = '\0'", "{file}: cannot be read: SyntaxError: "),
    ],
)
def test_faults_of_a_kernel_file_are_one_line(own, file, text, message):
    (own / file).write_text(text)
    with pytest.raises(KernelcatError) as caught:
        kernels.load_all(own)
    assert str(caught.value).startswith(message.format(file=own / file, project=kernels.FOLDER))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_the_folder_of_own_kernels_must_be_one(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(KernelcatError) as caught:
        kernels.files(tmp_path / name)
    assert str(caught.value) == f"kernels: expected a folder with kernel files, found '{tmp_path / name}'"


def test_a_file_that_failed_once_is_read_again(own):
    (own / "again.py").write_text("raise ValueError")
    with pytest.raises(KernelcatError):
        kernels.load(own / "again.py")
    (own / "again.py").write_text(KERNEL_FILE)
    assert kernels.load(own / "again.py").slug == "double"


# ---- what a kernel says


def test_a_shape_as_text():
    assert tensor("1 q_heads seq", "int64", below="vocab") == Tensor((1, "q_heads", "seq"), "int64", below="vocab")


def test_derived_axes_are_computed():
    rope = loaded("rope")
    axes = {"seq": 5, "hidden": 64, "q_heads": 4, "kv_heads": 2}
    assert rope.all_axes(axes) == {**axes, "head_dim": 16}
    assert rope.shapes(rope.inputs, axes) == {"q": (1, 4, 5, 16), "k": (1, 2, 5, 16)}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"hidden": 2, "q_heads": 4}, r"q: expected dimensions of at least 1, found \[1, 4, 5, 0\]"),
        ({"hidden": 64, "q_heads": 0}, "divisor"),
    ],
)
def test_shapes_that_cannot_be_are_refused(axes, message):
    rope = loaded("rope")
    with pytest.raises(KernelcatError, match=message):
        rope.shapes(rope.inputs, {"seq": 5, "kv_heads": 2, **axes})


@pytest.mark.parametrize(("name", "dtype"), [("logits", "bf16"), ("target", "int64")])
def test_only_float_tensors_take_the_dtype_of_the_case(name, dtype):
    assert loaded("cross_entropy").tensor_dtype(name, "bf16") == dtype


@pytest.mark.parametrize(("outputs", "expected"), [(1, (1,)), ((1, 2), (1, 2)), ([1, 2], (1, 2))])
def test_outputs_are_a_tuple(outputs, expected):
    assert as_tuple(outputs) == expected


@pytest.mark.parametrize(
    ("provider", "packages"),
    [
        (Provider(print, LIGER), {"liger-kernel", "torch", "triton"}),
        (Provider(print, HUGGINGFACE), {"torch", "transformers"}),
        (Provider(print, TORCH), {"torch"}),
        (torch_compile(print, "torch.nn:Softmax"), {"torch", "triton"}),
        (Provider(print), {"torch"}),
        (Provider(print, language="triton"), {"torch", "triton"}),
    ],
)
def test_the_packages_that_a_provider_runs(provider, packages):
    assert set(provider.packages) == packages


def test_the_keys_of_a_dialect_are_all_but_x():
    dialect = Dialect(
        "T",
        axes={"rows": "B * T", "hidden": "hidden_size // 2"},
        dtype="dt",
        scalars={"eps": "e"},
        fixed={"act": 1},
        ignored=("mode",),
    )
    assert dialect.keys == {"B", "hidden_size", "dt", "e", "act", "mode"}
    assert Dialect("T", axes={"rows": "T"}, dtype=None).keys == set()


# ---- manifests


@pytest.mark.parametrize(
    ("axes", "dtype", "name"),
    [
        ({"rows": 2048, "hidden": 16384}, "bf16", "liger-rms-norm-hidden16384-rows2048-bf16"),
        ({"hidden": 1, "rows": 2}, "fp32", "liger-rms-norm-hidden1-rows2-fp32"),
    ],
)
def test_the_name_of_a_workload(axes, dtype, name):
    assert manifests.workload(loaded("rms_norm"), Case(axes, dtype, EPS))["metadata"] == {"name": name}


def test_metadata_that_says_nothing_is_left_out():
    made = manifests.manifest("SoftwareProject", "x", {"name": "X"}, title="", description=None, labels={"a": "b"})
    assert made["metadata"] == {"name": "x", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("x", {}, "SoftwareProject x: /spec/name: "),
        ("x", {"name": "X", "more": 1}, "SoftwareProject x: /spec/more: "),
        ("X y", {"name": "X"}, "SoftwareProject X y: /metadata/name: "),
    ],
)
def test_a_manifest_that_does_not_fit_its_schema_is_refused(name, spec, message):
    with pytest.raises(KernelcatError) as caught:
        manifests.manifest("SoftwareProject", name, spec)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_an_event_has_an_external_id_and_a_name():
    event = manifests.Event(
        "rms_norm", "full", "liger", "NVIDIA H100 80GB HBM3", "hidden1-rows2-bf16", "2026-12-01 12:44:41"
    )
    assert event.external_id == "rms_norm/full/liger/nvidia-h100-80gb-hbm3/hidden1-rows2-bf16/2026-12-01-12-44-41"
    name = "kernelcat-rms-norm-full-liger-nvidia-h100-80gb-hbm3-hidden1-rows2-bf16-2026-12-01-12-44-41"
    assert event.name("kernelcat") == name


def test_sparsemax_has_no_gradient_where_an_element_equals_tau():
    import torch

    from kernelcat.kernels._sparsemax import by_sorting, projection

    gradients = []
    for sparsemax in (projection, by_sorting):
        x = torch.tensor([[2.0, 1.0, 0.5]], requires_grad=True)  # tau is 1
        sparsemax(x).backward(torch.tensor([[3.0, 5.0, 7.0]]))
        gradients.append(x.grad)
    assert torch.equal(*gradients)
