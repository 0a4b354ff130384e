"""The lecture on local differential privacy (after Dwork and Roth): its bounds and its reduction, held against runs."""
