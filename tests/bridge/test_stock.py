"""Against the installed mindformers: our copy of its template, and the proof of an import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.samples import gpt2, llama, mcore, write
from mindrecipe.bridge.importer import import_file
from mindrecipe.bridge.verify import verify
from mindrecipe.lower import template

pytestmark = pytest.mark.e2e

_TEMPLATE = """
import json, logging
logging.disable(logging.CRITICAL)
from mindformers.tools.register.template import CONFIG_NAME_TO_CLASS, ConfigTemplate
told = {}
for name, cls in CONFIG_NAME_TO_CLASS.items():
    told[name] = {"defaults": cls._default_value(), "required": list(cls._required_keys), "closed": cls._raise_error_for_unexpected_key}
order = {"always": ConfigTemplate.general_configs, "train": ConfigTemplate.train_configs, "eval": ConfigTemplate.do_eval_configs}
print("\\n" + json.dumps({"sections": told, "order": order}, default=lambda value: None))
"""


def test_the_template_is_the_installed_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _TEMPLATE], capture_output=True, text=True, cwd=tmp_path, check=True)
    stock = json.loads(done.stdout.splitlines()[-1])
    sections = stock["sections"]
    assert sections.pop("general_config")["defaults"] == template.GENERAL
    assert set(sections) == set(template.SECTIONS)
    for name, section in template.SECTIONS.items():
        assert section.defaults == sections[name]["defaults"], name
        assert list(section.required) == sections[name]["required"], name
        if not section.listed and not section.spec:
            assert section.closed == sections[name]["closed"], name
    expected = [name for group in ("always", "train", "eval") for name in stock["order"][group] if name != "general_config"]
    assert sorted(template.sections_of({"run_mode": "train", "do_eval": True})) == sorted(expected)


def test_imports_are_proven_equal(tmp_path: Path, here: Path) -> None:
    trees = [llama(), gpt2(), mcore(), llama(lr_schedule__learning_rate="1e-5")]
    imports = [import_file(write(tree, tmp_path, f"native_{number}.yaml")) for number, tree in enumerate(trees)]
    for verdict in verify(imports):
        assert verdict.equal, verdict
        assert verdict.original_refusal is None


def test_a_file_that_stock_refuses_is_told(tmp_path: Path, here: Path) -> None:
    (verdict,) = verify([import_file(write(llama(runner_config__epoch=3), tmp_path))])
    assert verdict.equal
    assert "unexpected key: epoch" in (verdict.original_refusal or "")
