"""Three regions, one topic name, links between all of them."""

from pathlib import Path

import pytest

from tests.spark.test_topologies import REGIONS, Regions, meet, regions

__all__ = ["regions"]  # the fixture


@pytest.mark.timeout(900)
def test_a_full_mesh_has_each_record_once_everywhere(regions: Regions, tmp_path: Path) -> None:
    meet("mesh", "carts", REGIONS, regions, tmp_path)
