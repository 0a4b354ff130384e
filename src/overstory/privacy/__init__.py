"""What a mechanism reveals, exactly: one report, n reports, any two histories. The standard library alone.

`statement` gathers it all for one mechanism; a `Ledger` of `Account`s is what one person has spent. Each name is loaded
when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.privacy.approximate import epsilon_at
    from overstory.privacy.ledger import Account, Ledger
    from overstory.privacy.payloads.shuffle import CentralPrivacy, shuffled
    from overstory.privacy.statements import Claim, PrivacyStatement, statement
    from overstory.privacy.terms import Attack, attack, terms_of

__all__ = [
    "Account",
    "Attack",
    "CentralPrivacy",
    "Claim",
    "Ledger",
    "PrivacyStatement",
    "attack",
    "epsilon_at",
    "shuffled",
    "statement",
    "terms_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Account": "privacy.ledger",
        "Attack": "privacy.terms",
        "CentralPrivacy": "privacy.payloads.shuffle",
        "Claim": "privacy.statements",
        "Ledger": "privacy.ledger",
        "PrivacyStatement": "privacy.statements",
        "attack": "privacy.terms",
        "epsilon_at": "privacy.approximate",
        "shuffled": "privacy.payloads.shuffle",
        "statement": "privacy.statements",
        "terms_of": "privacy.terms",
    },
)
