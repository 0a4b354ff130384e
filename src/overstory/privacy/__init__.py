"""What a mechanism reveals, exactly: one report, n reports, any histories, a change. The standard library alone.

`statement` gathers it all for one mechanism; `epsilon_between` compares any two histories of values; a `Ledger` keeps
what one person has spent, as `Spend` after `Spend`. Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.privacy.accounts import Event, Spend
    from overstory.privacy.approximate import delta_at, epsilon_at
    from overstory.privacy.caveats import map_differences
    from overstory.privacy.claims import Claim
    from overstory.privacy.ledger import Ledger, OverspentError, Quote, across_devices, across_people
    from overstory.privacy.payloads.base import Attack
    from overstory.privacy.payloads.registry import attack, change_leak, epsilon_between, terms_of
    from overstory.privacy.shuffle.central import CentralPrivacy, shuffled
    from overstory.privacy.statements import PrivacyStatement, statement

__all__ = [
    "Attack",
    "CentralPrivacy",
    "Claim",
    "Event",
    "Ledger",
    "OverspentError",
    "PrivacyStatement",
    "Quote",
    "Spend",
    "across_devices",
    "across_people",
    "attack",
    "change_leak",
    "delta_at",
    "epsilon_at",
    "epsilon_between",
    "map_differences",
    "shuffled",
    "statement",
    "terms_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Attack": "privacy.payloads.base",
        "CentralPrivacy": "privacy.shuffle.central",
        "Claim": "privacy.claims",
        "Event": "privacy.accounts",
        "Ledger": "privacy.ledger",
        "OverspentError": "privacy.ledger",
        "PrivacyStatement": "privacy.statements",
        "Quote": "privacy.ledger",
        "Spend": "privacy.accounts",
        "across_devices": "privacy.ledger",
        "across_people": "privacy.ledger",
        "attack": "privacy.payloads.registry",
        "change_leak": "privacy.payloads.registry",
        "delta_at": "privacy.approximate",
        "epsilon_at": "privacy.approximate",
        "epsilon_between": "privacy.payloads.registry",
        "map_differences": "privacy.caveats",
        "shuffled": "privacy.shuffle.central",
        "statement": "privacy.statements",
        "terms_of": "privacy.payloads.registry",
    },
)
