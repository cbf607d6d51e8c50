# GNU General Public License v3.0 or later (see LICENSE)
"""Face of ``module_utils/huge_pages.py`` for roles; the documentation is in the ``.yml`` file beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.huge_pages import estimate
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"huge_pages_estimate": lambda settings, page_bytes: estimate(to_plain(settings), int(page_bytes))}
