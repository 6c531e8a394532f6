"""The fuzzer's targets hold for its seeds, and for some of what it makes of them."""

import pytest
from fuzz import fuzz


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_seeds_and_their_mutations_pass(tmp_path, target):
    for number, seed in enumerate(fuzz.seeds(target)[-8:]):
        fuzz.TARGETS[target](seed, tmp_path)
        changed = fuzz.mutated(target, seed, 65536, number)
        fuzz.TARGETS[target](changed, tmp_path)
        assert fuzz.mutated(target, seed, 65536, number) == changed
