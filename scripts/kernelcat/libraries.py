"""Who makes the code that is measured: one entry per library, with what the index publishes about it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Library:
    """A project whose code a provider runs.

    `project` is the spec of its SoftwareProject, `language` the language of its kernels, `licensing` its licence as
    the index publishes it, `package` the name under which pip installs it, `needs` the other packages whose version
    changes what it runs (torch always counts and is not listed).
    """

    project: dict
    language: str
    licensing: dict
    package: str
    install_by_pip: bool = False
    needs: tuple[str, ...] = ()

    @property
    def packages(self) -> tuple[str, ...]:
        """The pip packages whose versions change what this library's kernels run."""
        return tuple(sorted({"torch", self.package, *self.needs}))

    @property
    def published(self) -> dict:
        """The fields of an ImplementationRevision that are the same for each of the library's kernels."""
        fields = {"callable": {"language": self.language}, "licensing": self.licensing}
        if self.install_by_pip:
            fields["buildVariants"] = [{"name": "pip", "install": {"kind": "pip", "package": self.package}}]
        return fields


def _github(name: str, identifier: str) -> dict:
    return {
        "name": name,
        "kind": "library",
        "repository": f"https://github.com/{identifier}",
        "host": {"kind": "github", "id": identifier},
    }


LIGER = Library(
    project=_github("Liger-Kernel", "linkedin/Liger-Kernel"),
    language="triton",
    licensing={"declared": "BSD-2-Clause", "concluded": "BSD-2-Clause"},
    package="liger-kernel",
    install_by_pip=True,
    needs=("triton",),
)
LIGER_CUTILE = replace(LIGER, language="cutile", needs=("cuda-tile",))
LIGER_CUTEDSL = replace(LIGER, language="cutedsl", needs=("nvidia-cutlass-dsl",))
HUGGINGFACE = Library(
    project=_github("Hugging Face Transformers", "huggingface/transformers"),
    language="python",
    licensing={"declared": "Apache-2.0"},
    package="transformers",
)
TORCH = Library(
    project=_github("PyTorch", "pytorch/pytorch"),
    language="python",
    licensing={"declared": "BSD-3-Clause"},
    package="torch",
)
TORCH_COMPILE = Library(
    project=TORCH.project, language="python", licensing=TORCH.licensing, package="torch", needs=("triton",)
)
DEEPSPEED = Library(
    project=_github("DeepSpeed", "deepspeedai/DeepSpeed"),
    language="python",
    licensing={"declared": "Apache-2.0"},
    package="deepspeed",
)
MEGATRON = Library(
    project=_github("NVIDIA Megatron-LM", "NVIDIA/Megatron-LM"),
    language="python",
    licensing={"declared": "BSD-3-Clause"},
    package="megatron-core",
)

CSV_PROVIDERS: dict[str, Library] = {
    "cutedsl-sm90": LIGER_CUTEDSL,
    "cutile": LIGER_CUTILE,
    "cutile-sm90": LIGER_CUTILE,
    "deepspeed_tiled": DEEPSPEED,
    "huggingface": HUGGINGFACE,
    "liger": LIGER,
    "liger-fp32-accum": LIGER,
    "liger_cutedsl": LIGER_CUTEDSL,
    "liger_cutedsl-fp32-accum": LIGER_CUTEDSL,
    "liger_cutile": LIGER_CUTILE,
    "liger_cutile_fused_add_rms_norm": LIGER_CUTILE,
    "liger_cutile_rms_norm": LIGER_CUTILE,
    "liger_fused_add_rms_norm": LIGER,
    "liger_in_place": LIGER,
    "liger_rms_norm": LIGER,
    "liger_tiled": LIGER,
    "liger_triton": LIGER,
    "liger_triton-fp32-accum": LIGER,
    "liger_triton_fused_add_rms_norm": LIGER,
    "liger_triton_rms_norm": LIGER,
    "megatron": MEGATRON,
    "megatron-fused": MEGATRON,
    "megatron-unfused": MEGATRON,
    "pytorch": TORCH,
    "torch": TORCH,
    "torch_compile": TORCH_COMPILE,
}
"""What a `kernel_provider` of a Liger CSV stands for in the published implementations."""
