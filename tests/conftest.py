"""What the test files share: the GPU marker's skip, and copies of the workflow to run."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU that torch can use; there is none"))


@dataclass(frozen=True)
class Workflow:
    """A copy of the workflow in a folder of its own."""

    folder: Path

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """Runs `snakemake --cores 1 ARGUMENTS` there, with stderr and stdout in one text."""
        # the copied scripts are what runs, not the package that this environment has installed
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
            cwd=self.folder,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def measured(self, *arguments: str, **variables: str) -> list[str]:
        """The configurations that a run would measure, as KERNEL/MODE/PROVIDER/CASE without the protocol, sorted."""
        result = self.run("--dry-run", "results/catalog.json", *arguments, **variables)
        assert result.returncode == 0, result.stdout
        paths = [line.split("path=")[1] for line in result.stdout.splitlines() if "wildcards: path=" in line]
        return sorted(path.removeprefix("cpu/").rsplit("-", 2)[0] for path in paths)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces `old`, which must be there, in a file of the copy."""
        file = self.folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def copy_workflow(folder: Path) -> Workflow:
    """The Snakefile and what it needs, in a new folder."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("config", "envs", "profiles", "report", "schemas", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "Snakefile", folder)
    return Workflow(folder)


def empty_packages(folder: Path) -> Path:
    """A folder that, as PYTHONPATH, saves a worker's time: of what it imports, only torch and Triton are there."""
    for package, module in (("transformers", "models/llama/modeling_llama.py"), ("liger_kernel", "transformers.py")):
        for path in (folder / package / "__init__.py", folder / package / module):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return folder


@pytest.fixture(scope="module")
def workflow_process():
    """A process that jobs may belong to, as they do to Snakemake's."""
    process = subprocess.Popen(["sleep", "3600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def fresh(tmp_path) -> Workflow:
    """A workflow that has not run yet."""
    return copy_workflow(tmp_path / "fresh")
