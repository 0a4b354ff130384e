"""What travels between a device and a collector: batches, uploads, reasons of refusal."""

import re
from typing import Final

METRIC_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
"""What a metric may be called."""

GROUP: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,30}[A-Za-z0-9._+-])?", re.ASCII)
"""What a group may be called: one name for each group, without invisible or look-alike characters."""
