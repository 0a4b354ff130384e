"""The main job on bundled real data, from device to page: what was true, what was learned, and what it cost."""
