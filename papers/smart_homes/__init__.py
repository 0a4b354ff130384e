"""ProTECting (Vidal; SBBD 2019, SBRC 2020): energy readings of homes, reported for ever."""
