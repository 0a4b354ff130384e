"""Confirmed COVID-19 cases by US state or territory on 18 April 2021.

Figures of the COVID-19 Data Repository by the Center for Systems Science and Engineering (CSSE) at Johns Hopkins
University, daily report of 18 April 2021, licensed CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). They are
the figures of "Frequency feature extraction based on localized differential privacy", Computer Science 49(7), 2022.
"""

from __future__ import annotations

from typing import Final

ATTRIBUTION: Final = "Johns Hopkins CSSE daily report, 18 April 2021, CC BY 4.0"

CONFIRMED: Final[dict[str, int]] = {
    "Alabama": 522_401,
    "Alaska": 65_921,
    "American Samoa": 0,
    "Arizona": 853_761,
    "Arkansas": 333_452,
    "California": 3_718_210,
    "Colorado": 490_289,
    "Connecticut": 329_062,
    "Delaware": 101_158,
    "Diamond Princess": 49,
    "District of Columbia": 46_662,
    "Florida": 2_168_901,
    "Georgia": 1_084_272,
    "Grand Princess": 103,
    "Guam": 7_869,
    "Hawaii": 32_758,
    "Idaho": 184_769,
    "Illinois": 1_302_134,
    "Indiana": 708_067,
    "Iowa": 360_054,
    "Kansas": 307_407,
    "Kentucky": 437_312,
    "Louisiana": 451_955,
    "Maine": 57_285,
    "Maryland": 436_028,
    "Massachusetts": 672_657,
    "Michigan": 873_700,
    "Minnesota": 556_381,
    "Mississippi": 309_186,
    "Missouri": 583_941,
    "Montana": 107_145,
    "Nebraska": 216_473,
    "Nevada": 310_235,
    "New Hampshire": 91_586,
    "New Jersey": 978_853,
    "New Mexico": 194_868,
    "New York": 1_998_912,
    "North Carolina": 943_693,
    "North Dakota": 105_754,
    "Northern Mariana Islands": 162,
    "Ohio": 1_053_175,
    "Oklahoma": 444_863,
    "Oregon": 175_121,
    "Pennsylvania": 1_107_673,
    "Puerto Rico": 123_049,
    "Rhode Island": 144_149,
    "South Carolina": 569_279,
    "South Dakota": 121_056,
    "Tennessee": 830_484,
    "Texas": 2_850_575,
    "Utah": 392_757,
    "Vermont": 22_016,
    "Virgin Islands": 3_028,
    "Virginia": 646_133,
    "Washington": 385_549,
    "West Virginia": 148_887,
    "Wisconsin": 651_545,
    "Wyoming": 57_267,
}
