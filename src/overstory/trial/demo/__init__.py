"""The main job on bundled real data, over the whole path: what was true, what was learned, and what it cost."""
