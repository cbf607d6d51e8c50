"""Make ``ansible_collections.pgsizing.bench`` importable from the checkout, with or without pytest-ansible."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(Path(__file__).parents[1] / "collections")])
